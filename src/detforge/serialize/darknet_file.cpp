#include "detforge/serialize/darknet_file.h"

#include <cstring>
#include <limits>
#include <string>

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include "detforge/core/error.h"
#include "detforge/core/files.h"

namespace detforge {
namespace {

constexpr std::size_t kVersionBytes = 3 * sizeof(std::int32_t);
constexpr std::int32_t kMostVersion = 99, kMostRevision = 9999;
constexpr const char* kGetAgain = "get the file again from its source";

bool has_wide_counter(std::int32_t major, std::int32_t minor) {
  return major * 10 + minor >= 2;
}

template <typename Number>
Number number_at(std::string_view content, std::size_t position) {
  Number number = 0;
  std::memcpy(&number, content.data() + position, sizeof number);
  return number;
}

template <typename Number>
void append(std::string& content, Number number) {
  content.append(reinterpret_cast<const char*>(&number), sizeof number);
}

}  // namespace

bool is_darknet_file(std::string_view content) {
  if (content.size() < kVersionBytes) {
    return false;
  }
  const auto in_range = [&](std::size_t position, std::int32_t most) {
    const auto number = number_at<std::int32_t>(content, position);
    return number >= 0 && number <= most;
  };
  return in_range(0, kMostVersion) && in_range(4, kMostVersion) && in_range(8, kMostRevision);
}

DarknetFile read_darknet_file(std::string_view content) {
  DETFORGE_CHECK(is_darknet_file(content), "the file does not begin with a version of Darknet",
                 "give a .weights file");
  DarknetFile file;
  file.major = number_at<std::int32_t>(content, 0);
  file.minor = number_at<std::int32_t>(content, 4);
  file.revision = number_at<std::int32_t>(content, 8);
  const bool is_wide = has_wide_counter(file.major, file.minor);
  const std::size_t begin = kVersionBytes + (is_wide ? 8 : 4);
  DETFORGE_CHECK(content.size() >= begin,
                 fmt::format("the file ends after {} bytes, inside its header", content.size()),
                 kGetAgain);
  file.seen = is_wide ? number_at<std::int64_t>(content, kVersionBytes)
                      : number_at<std::int32_t>(content, kVersionBytes);
  DETFORGE_CHECK(file.seen >= 0, fmt::format("the file says that {} images were seen", file.seen),
                 kGetAgain);
  const std::size_t bytes = content.size() - begin;
  DETFORGE_CHECK(bytes % sizeof(float) == 0,
                 fmt::format("{} bytes follow the header: no whole number of floats", bytes),
                 kGetAgain);
  const auto count = static_cast<std::int64_t>(bytes / sizeof(float));
  file.values = at::empty({count}, at::TensorOptions().dtype(at::kFloat));
  if (bytes > 0) {  // an empty tensor has no memory, and null must not be copied to
    std::memcpy(file.values.data_ptr(), content.data() + begin, bytes);
  }
  return file;
}

void write_darknet_file(const std::filesystem::path& path, const DarknetFile& file) {
  std::string content;
  append(content, file.major);
  append(content, file.minor);
  append(content, file.revision);
  if (has_wide_counter(file.major, file.minor)) {
    append(content, file.seen);
  } else {
    DETFORGE_CHECK(file.seen <= std::numeric_limits<std::int32_t>::max(),
                   fmt::format("{} images seen do not fit a file of version {}.{}", file.seen,
                               file.major, file.minor),
                   "write version 0.2");
    append(content, static_cast<std::int32_t>(file.seen));
  }
  const Tensor values = file.values.to(at::kCPU, at::kFloat).contiguous();
  content.append(static_cast<const char*>(values.data_ptr()), values.nbytes());
  files::write_atomic(path, content);
}

Value darknet_header(const DarknetFile& file) {
  return Value::dict()
      .set("major", file.major)
      .set("minor", file.minor)
      .set("revision", file.revision)
      .set("seen", file.seen);
}

Value to_value(const DarknetFile& file) {
  return Value::dict().set("darknet", darknet_header(file)).set("values", file.values);
}

bool holds_darknet_file(const Value& content) {
  const Value* values = content.find("values");
  return content.find("darknet") != nullptr && values != nullptr &&
         values->get_if<Tensor>() != nullptr;
}

DarknetFile to_darknet_file(const Value& content) {
  const Item header = content.item("the file")["darknet"];
  const auto version = [&](const char* key, std::int32_t most) {
    const std::int64_t number = header[key].integer();
    DETFORGE_CHECK(number >= 0 && number <= most,
                   fmt::format("{} = {} is no version of Darknet", header[key].path(), number),
                   kGetAgain);
    return static_cast<std::int32_t>(number);
  };
  DarknetFile file;
  file.major = version("major", kMostVersion);
  file.minor = version("minor", kMostVersion);
  file.revision = version("revision", kMostRevision);
  file.seen = header["seen"].integer();
  if (const auto values = content.item("the file").find("values")) {
    file.values = values->tensor();
    DETFORGE_CHECK(file.values.dim() == 1 && file.values.scalar_type() == at::kFloat,
                   fmt::format("{} is no list of floats", values->path()), kGetAgain);
  }
  return file;
}

}  // namespace detforge
