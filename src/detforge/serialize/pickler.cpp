#include "detforge/serialize/pickler.h"

#include <cstring>

#include <fmt/format.h>

#include "detforge/core/error.h"
#include "detforge/serialize/text_codec.h"

namespace detforge {
namespace {

constexpr int kMaxDepth = 100;

std::string little_endian(std::uint64_t number, int count) {
  std::string bytes;
  for (int i = 0; i < count; ++i) {
    bytes.push_back(static_cast<char>(static_cast<unsigned char>(number >> (8 * i))));
  }
  return bytes;
}

const char* storage_class(at::ScalarType dtype) {
  switch (dtype) {
    case at::kFloat:
      return "FloatStorage";
    case at::kDouble:
      return "DoubleStorage";
    case at::kHalf:
      return "HalfStorage";
    case at::kBFloat16:
      return "BFloat16Storage";
    case at::kLong:
      return "LongStorage";
    case at::kInt:
      return "IntStorage";
    case at::kShort:
      return "ShortStorage";
    case at::kChar:
      return "CharStorage";
    case at::kByte:
      return "ByteStorage";
    case at::kBool:
      return "BoolStorage";
    default:
      throw Error(fmt::format("a tensor of type {} cannot be written", c10::toString(dtype)),
                  "convert it to float32");
  }
}

}  // namespace

std::string Pickler::dump(const Value& value) {
  out_ = "\x80\x02";
  write(value, 0);
  return std::move(out_) + ".";
}

void Pickler::write(const Value& value, int depth) {
  DETFORGE_CHECK(depth <= kMaxDepth, "values nest deeper than 100 levels",
                 "write a flatter structure");
  switch (value.kind()) {
    case Value::Kind::kNone:
      out_ += 'N';
      break;
    case Value::Kind::kBool:
      out_ += *value.get_if<bool>() ? '\x88' : '\x89';
      break;
    case Value::Kind::kInt:
      write_integer(*value.get_if<std::int64_t>());
      break;
    case Value::Kind::kDouble:
      write_double(*value.get_if<double>());
      break;
    case Value::Kind::kString:
      write_text(*value.get_if<std::string>());
      break;
    case Value::Kind::kBytes:
      write_bytes(value.get_if<Value::Bytes>()->data);
      break;
    case Value::Kind::kTensor:
      write_tensor(*value.get_if<Tensor>());
      break;
    case Value::Kind::kList:
    case Value::Kind::kTuple:
      write_list(value, *value.items(), depth);
      break;
    case Value::Kind::kDict:
      out_ += "}(";
      for (const Value::Entry& entry : *value.entries()) {
        write(entry.key, depth + 1);
        write(entry.value, depth + 1);
      }
      out_ += 'u';
      break;
  }
}

void Pickler::write_integer(std::int64_t number) {
  if (number >= INT32_MIN && number <= INT32_MAX) {
    out_ += 'J' + little_endian(static_cast<std::uint64_t>(number), 4);
  } else {
    out_ += "\x8a\x08" + little_endian(static_cast<std::uint64_t>(number), 8);
  }
}

void Pickler::write_double(double number) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &number, sizeof bits);
  std::string bytes = little_endian(bits, 8);
  out_ += 'G' + std::string(bytes.rbegin(), bytes.rend());
}

void Pickler::write_text(const std::string& text) {
  DETFORGE_CHECK(pickle::is_utf8(text), "a text to be written is not UTF-8",
                 "rename the file or class it comes from");
  out_ += 'X' + little_endian(text.size(), 4) + text;
}

/// As Python does in protocol 2: as latin-1 text with a note to encode it.
void Pickler::write_bytes(const std::string& bytes) {
  out_ += "c_codecs\nencode\n(";
  write_text(pickle::latin1_to_utf8(bytes));
  write_text("latin1");
  out_ += "tR";
}

void Pickler::write_list(const Value& value, const Value::List& items, int depth) {
  const bool tuple = value.kind() == Value::Kind::kTuple;
  out_ += tuple ? "(" : "](";
  for (const Value& item : items) {
    write(item, depth + 1);
  }
  out_ += tuple ? 't' : 'e';
}

/// torch._utils._rebuild_tensor_v2(storage, offset, size, stride, requires_grad, hooks).
void Pickler::write_tensor(const Tensor& tensor) {
  DETFORGE_CHECK(tensor.defined(), "an undefined tensor is to be written",
                 "leave the entry out or write None");
  const char* storage = storage_class(tensor.scalar_type());
  const std::size_t number = storage_number(tensor);
  const Tensor& contiguous = storages_[number];
  out_ += "ctorch._utils\n_rebuild_tensor_v2\n((";
  write_text("storage");
  out_ += fmt::format("ctorch\n{}\n", storage);
  write_text(fmt::format("{}", number));
  write_text("cpu");
  write_integer(contiguous.numel());
  out_ += "tQ";
  write_integer(0);
  for (const at::IntArrayRef numbers : {contiguous.sizes(), contiguous.strides()}) {
    out_ += '(';
    for (const std::int64_t extent : numbers) {
      write_integer(extent);
    }
    out_ += 't';
  }
  out_ +=
      "\x89"
      "ccollections\nOrderedDict\n)RtR";
}

std::size_t Pickler::storage_number(const Tensor& tensor) {
  const std::string identity =
      fmt::format("{} {} {} {}", fmt::ptr(tensor.data_ptr()), c10::toString(tensor.scalar_type()),
                  fmt::join(tensor.sizes(), ","), fmt::join(tensor.strides(), ","));
  const auto [found, is_new] = seen_.emplace(identity, storages_.size());
  if (is_new) {
    originals_.push_back(tensor);
    storages_.push_back(tensor.detach().to(at::kCPU).contiguous());
  }
  return found->second;
}

}  // namespace detforge
