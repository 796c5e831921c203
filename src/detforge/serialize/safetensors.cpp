#include <cstring>

#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "detforge/core/error.h"
#include "detforge/core/files.h"
#include "detforge/serialize/containers.h"
#include "detforge/serialize/torch_file.h"

// Format: https://huggingface.co/docs/safetensors, "Format".
namespace detforge {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kLengthBytes = 8;
constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // the format's own limit
constexpr const char* kDamaged = "the file is damaged or cut short: get it again from its source";

struct TypeName {
  const char* name;
  at::ScalarType dtype;
};
constexpr TypeName kTypes[] = {{"F32", at::kFloat},     {"F64", at::kDouble}, {"F16", at::kHalf},
                               {"BF16", at::kBFloat16}, {"I64", at::kLong},   {"I32", at::kInt},
                               {"I16", at::kShort},     {"I8", at::kChar},    {"U8", at::kByte},
                               {"BOOL", at::kBool}};

std::uint64_t header_length(std::string_view content) {
  std::uint64_t length = 0;
  std::memcpy(&length, content.data(), kLengthBytes);
  return length;
}

at::ScalarType parse_type(const std::string& name) {
  for (const TypeName& type : kTypes) {
    if (name == type.name) {
      return type.dtype;
    }
  }
  throw Error(fmt::format("a tensor of type {}", name), "convert it to float32 first");
}

const char* type_name(at::ScalarType dtype) {
  for (const TypeName& type : kTypes) {
    if (dtype == type.dtype) {
      return type.name;
    }
  }
  throw Error(fmt::format("a tensor of type {} cannot be written", c10::toString(dtype)),
              "convert it to float32");
}

Tensor read_tensor(const Json& description, std::string_view numbers) {
  const at::ScalarType dtype = parse_type(description.at("dtype").get<std::string>());
  const auto shape = description.at("shape").get<std::vector<std::int64_t>>();
  const auto offsets = description.at("data_offsets").get<std::vector<std::uint64_t>>();
  DETFORGE_CHECK(offsets.size() == 2 && offsets[0] <= offsets[1] && offsets[1] <= numbers.size(),
                 "data_offsets outside the file", kDamaged);
  auto size = static_cast<std::int64_t>(c10::elementSize(dtype));
  bool fits = shape.size() <= 64;
  for (const std::int64_t extent : shape) {
    fits = fits && extent >= 0 && !__builtin_mul_overflow(size, extent, &size);
  }
  DETFORGE_CHECK(fits && size == static_cast<std::int64_t>(offsets[1] - offsets[0]),
                 fmt::format("shape [{}] does not fit data_offsets", fmt::join(shape, ", ")),
                 kDamaged);
  Tensor tensor = at::empty(shape, dtype);
  if (size != 0) {
    std::memcpy(tensor.data_ptr(), numbers.data() + offsets[0], static_cast<std::size_t>(size));
  }
  normalise_bools_(tensor);
  return tensor;
}

Value read_metadata(const Json& metadata) {
  Value::Dict entries;
  for (const auto& [key, text] : metadata.items()) {
    entries.push_back({key, text.get<std::string>()});
  }
  return Value::dict(std::move(entries));
}

Value read_entries(const Json& header, std::string_view numbers) {
  Value::Dict entries;
  std::size_t total = 0;
  for (const auto& [name, description] : header.items()) {
    if (name == "__metadata__") {
      entries.push_back({name, read_metadata(description)});
      continue;
    }
    try {
      entries.push_back({name, read_tensor(description, numbers)});
    } catch (Error& error) {
      error.add_where(fmt::format("tensor {}", name));
      throw;
    }
    total += entries.back().value.get_if<Tensor>()->nbytes();
    DETFORGE_CHECK(total <= numbers.size(), "tensors overlap", kDamaged);
  }
  return Value::dict(std::move(entries));
}

}  // namespace

bool is_safetensors(std::string_view content) {
  return content.size() > kLengthBytes && content[kLengthBytes] == '{' &&
         header_length(content) <= kMaxHeaderBytes;
}

Value read_safetensors(std::string_view content) {
  const std::uint64_t length = header_length(content);
  DETFORGE_CHECK(length <= content.size() - kLengthBytes, "the header is cut short", kDamaged);
  try {
    const Json header = Json::parse(content.substr(kLengthBytes, length));
    return read_entries(header, content.substr(kLengthBytes + length));
  } catch (const Json::exception& exception) {
    throw Error(fmt::format("the header is no valid description of tensors: {}", exception.what()),
                kDamaged);
  }
}

void write_safetensors(const std::filesystem::path& path, const Value& value) {
  Json header = Json::object();
  std::string numbers;
  std::map<std::string, const Value*> sorted;
  for (const Value::Entry& entry : value.item("the value to write").dict()) {
    sorted.emplace(entry.key.item("a key").string(), &entry.value);
  }
  for (const auto& [name, entry] : sorted) {
    if (const auto* text = entry->get_if<std::string>()) {
      header["__metadata__"][name] = *text;
      continue;
    }
    const Tensor tensor = entry->item(name).tensor().detach().to(at::kCPU).contiguous();
    const std::size_t start = numbers.size();
    numbers.append(static_cast<const char*>(tensor.data_ptr()), tensor.nbytes());
    header[name] = {{"dtype", type_name(tensor.scalar_type())},
                    {"shape", tensor.sizes().vec()},
                    {"data_offsets", {start, numbers.size()}}};
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  std::string content(kLengthBytes, '\0');
  const std::uint64_t length = text.size();
  std::memcpy(content.data(), &length, kLengthBytes);
  files::write_atomic(path, content + text + numbers);
}

}  // namespace detforge
