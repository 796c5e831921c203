#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "detforge/core/tensor.h"

namespace detforge {

class Item;

/// The content of a weights file or checkpoint: a tree of plain data, what Python's None, bool,
/// int, float, str, bytes, list, tuple, dict and torch.Tensor can say. Copies are deep, except that
/// tensors share storage.
///   Value checkpoint = Value::dict();
///   checkpoint.set("iteration", 40).set("model", Value::dict().set("w", tensor));
///   Tensor w = checkpoint.item("last.pth")["model"]["w"].tensor();
class Value {
 public:
  struct Entry;
  struct Bytes {
    std::string data;
  };
  using List = std::vector<Value>;
  /// In the order of the file. Keys are strings or integers and occur once.
  using Dict = std::vector<Entry>;

  /// Order of the alternatives of `data` below.
  enum class Kind { kNone, kBool, kInt, kDouble, kString, kBytes, kTensor, kList, kTuple, kDict };

  Value() = default;
  Value(bool value) : data_(value) {}                    // NOLINT(google-explicit-constructor)
  Value(int value) : data_(std::int64_t{value}) {}       // NOLINT(google-explicit-constructor)
  Value(std::int64_t value) : data_(value) {}            // NOLINT(google-explicit-constructor)
  Value(double value) : data_(value) {}                  // NOLINT(google-explicit-constructor)
  Value(std::string value) : data_(std::move(value)) {}  // NOLINT(google-explicit-constructor)
  Value(std::string_view value)
      : data_(std::string(value)) {}                       // NOLINT(google-explicit-constructor)
  Value(const char* value) : data_(std::string(value)) {}  // NOLINT(google-explicit-constructor)
  Value(Bytes value) : data_(std::move(value)) {}          // NOLINT(google-explicit-constructor)
  Value(Tensor value) : data_(std::move(value)) {}         // NOLINT(google-explicit-constructor)
  static Value list(List items = {});
  static Value tuple(List items);
  static Value dict(Dict entries = {});

  Kind kind() const { return static_cast<Kind>(data_.index()); }
  /// "a string", "a tensor", ...: for messages.
  const char* kind_name() const;

  /// The alternative, or null if this is something else: get_if<Tensor>(), get_if<std::int64_t>(),
  /// ...
  template <typename T>
  const T* get_if() const {
    return std::get_if<T>(&data_);
  }
  /// The items of a list or tuple, the entries of a dict; null if this is something else.
  const List* items() const;
  const Dict* entries() const;
  /// The value of a dict's key, or null if it has none or this is no dict. Linear in the number of
  /// entries.
  const Value* find(std::string_view key) const;
  const Value* find(std::int64_t key) const;

  /// Sets or replaces a key of a dict (an Error for other kinds); returns *this for chaining.
  Value& set(std::string_view key, Value value);
  Value& set(std::int64_t key, Value value);
  /// Adds to the end of a list (an Error for other kinds); returns *this for chaining.
  Value& append(Value value);

  /// A view for reading with Errors that name the place; `path` is what they call this value. The
  /// view borrows *this: keep it alive.
  Item item(std::string path) const;

 private:
  struct Tuple {
    List items;
  };
  Value& set_entry(Value key, Value value);
  std::variant<std::monostate,
               bool,
               std::int64_t,
               double,
               std::string,
               Bytes,
               Tensor,
               List,
               Tuple,
               Dict>
      data_;
};

struct Value::Entry {
  Value key;
  Value value;
};

/// A place in a Value, for reading: every accessor gives what is asked for or throws an Error such
/// as `checkpoint['model']['w'] is a string, expected a tensor`. Borrows the Value.
class Item {
 public:
  Item(const Value& value, std::string path) : value_(&value), path_(std::move(path)) {}

  /// The entry of a dict; an Error if there is none.
  Item operator[](std::string_view key) const;
  /// Item `index` of a list or tuple, or the entry of a dict with this integer key.
  Item operator[](std::int64_t index) const;
  /// As [], without an Error for a missing key (but for a value that is no dict).
  std::optional<Item> find(std::string_view key) const;

  bool boolean() const;
  std::int64_t integer() const;
  double number() const;  ///< a double or an integer
  const std::string& string() const;
  const std::string& bytes() const;
  const Tensor& tensor() const;
  const Value::List& list() const;  ///< of a list or tuple
  const Value::Dict& dict() const;
  bool is_none() const { return value_->kind() == Value::Kind::kNone; }

  const Value& value() const { return *value_; }
  const std::string& path() const { return path_; }

 private:
  [[noreturn]] void fail(const char* expected) const;
  template <typename T>
  const T& get(const char* expected) const;
  const Value* value_;
  std::string path_;
};

}  // namespace detforge
