#include "detforge/serialize/pickle_object.h"

#include <map>

#include <fmt/format.h>

#include "detforge/core/error.h"
#include "detforge/serialize/text_codec.h"

namespace detforge::pickle {
namespace {

constexpr int kMaxDepth = 100;

/// Finds repeated keys of one dict in O(log n), whatever their number.
class KeyIndex {
 public:
  /// Where `key` was seen first, or `position` if it is new.
  std::size_t insert(const Value& key, std::size_t position) {
    if (const auto* text = key.get_if<std::string>()) {
      return texts_.emplace(*text, position).first->second;
    }
    const auto* number = key.get_if<std::int64_t>();
    DETFORGE_CHECK(
        number != nullptr, fmt::format("{} is used as a key of a dict", key.kind_name()),
        "only strings and integers are read as keys: save the weights as a plain state dict");
    return numbers_.emplace(*number, position).first->second;
  }

 private:
  std::map<std::string, std::size_t> texts_;
  std::map<std::int64_t, std::size_t> numbers_;
};

class Converter {
 public:
  explicit Converter(Arena& arena) : arena_(arena) {}

  Value convert(Object* object, int depth) {
    if (depth > kMaxDepth) {
      fail_malformed(fmt::format("objects nest deeper than {} levels", kMaxDepth));
    }
    arena_.charge(sizeof(Value));
    return std::visit([&](auto& data) { return this->from(data, depth); }, object->data);
  }

 private:
  Value from(std::monostate& /*none*/, int /*depth*/) { return {}; }
  Value from(bool& value, int /*depth*/) { return value; }
  Value from(std::int64_t& value, int /*depth*/) { return value; }
  Value from(double& value, int /*depth*/) { return value; }
  Value from(Tensor& value, int /*depth*/) { return value; }
  Value from(std::string& value, int /*depth*/) {
    arena_.charge(value.size());
    return value;
  }
  Value from(Value::Bytes& value, int /*depth*/) {
    arena_.charge(value.data.size());
    return value;
  }
  Value from(ByteString& value, int /*depth*/) {
    arena_.charge(2 * value.data.size());
    return latin1_to_utf8(value.data);
  }
  Value from(Sequence& sequence, int depth) {
    Value::List items;
    for (Object* item : sequence.items) {
      items.push_back(convert(item, depth + 1));
    }
    return sequence.is_tuple ? Value::tuple(std::move(items)) : Value::list(std::move(items));
  }
  Value from(Mapping& mapping, int depth) {
    Value::Dict entries;
    KeyIndex index;
    for (const auto& [key_object, value_object] : mapping.entries) {
      Value key = convert(key_object, depth + 1);
      Value value = convert(value_object, depth + 1);
      const std::size_t position = index.insert(key, entries.size());
      if (position < entries.size()) {
        entries[position].value = std::move(value);
      } else {
        entries.push_back({std::move(key), std::move(value)});
      }
    }
    return Value::dict(std::move(entries));
  }
  Value from(Global& global, int /*depth*/) {
    fail_malformed(global.name + " stands where data should be");
  }
  Value from(Storage& /*storage*/, int /*depth*/) { fail_malformed("a storage without a tensor"); }
  Value from(NumpyDtype& /*dtype*/, int /*depth*/) { return "numpy.dtype"; }
  Value from(UnfilledArray& /*array*/, int /*depth*/) {
    fail_malformed("a NumPy array without its numbers");
  }

  Arena& arena_;
};

}  // namespace

Object* Arena::make(Data data) {
  DETFORGE_CHECK(objects_.size() < kMaxObjects,
                 fmt::format("the pickle makes more than {} objects", kMaxObjects),
                 "this is not a weights file; save the state dict alone");
  objects_.push_back({std::move(data)});
  return &objects_.back();
}

void Arena::charge(std::size_t bytes) {
  DETFORGE_CHECK(bytes <= bytes_left_, "the pickle unfolds to many times its own size",
                 "the file is damaged or made to exhaust memory: get it again from its source");
  bytes_left_ -= bytes;
}

void fail_malformed(const std::string& what) {
  throw Error("not a valid pickle: " + what,
              "the file is damaged or cut short: get it again from its source");
}

const std::string& expect_text(Object* object, const char* role) {
  const auto* bytes = object->get_if<ByteString>();
  return bytes != nullptr ? bytes->data : expect<std::string>(object, role);
}

Value to_value(Object* object, Arena& arena) {
  return Converter(arena).convert(object, 0);
}

}  // namespace detforge::pickle
