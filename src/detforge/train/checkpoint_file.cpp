#include "detforge/train/checkpoint_file.h"

#include <bit>
#include <charconv>
#include <cstring>
#include <fstream>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "detforge/core/error.h"
#include "detforge/core/files.h"
#include "detforge/serialize/torch_file.h"

namespace detforge {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMark = "detforge-seal";
constexpr std::string_view kNoMetric = "----------------";
// "detforge-seal iteration=%020d metric=%016x fnv1a64=%016x", numbers in hexadecimal but for the
// iteration.
constexpr std::size_t kHashDigits = 16;
constexpr std::size_t kSealSize = 13 + 11 + 20 + 8 + 16 + 9 + kHashDigits;
constexpr std::size_t kEndRecordSize = 22;  // zip's end-of-central-directory record without comment

std::string seal_text(const CheckpointSeal& seal) {
  const std::string metric =
      seal.metric ? fmt::format("{:016x}", std::bit_cast<std::uint64_t>(*seal.metric))
                  : std::string(kNoMetric);
  return fmt::format("{} iteration={:020d} metric={} fnv1a64=", kMark, seal.iteration, metric);
}

template <typename T>
bool parse(std::string_view text, int base, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  return error == std::errc() && end == text.data() + text.size();
}

std::optional<CheckpointSeal> parse_seal(std::string_view text) {
  CheckpointSeal seal;
  std::uint64_t metric_bits = 0;
  if (text.size() != kSealSize || !text.starts_with(kMark) ||
      !parse(text.substr(24, 20), 10, seal.iteration)) {
    return std::nullopt;
  }
  const std::string_view metric = text.substr(52, 16);
  if (metric != kNoMetric) {
    if (!parse(metric, 16, metric_bits)) {
      return std::nullopt;
    }
    seal.metric = std::bit_cast<double>(metric_bits);
  }
  return seal;
}

/// FNV-1a of the first `size` bytes.
std::uint64_t checksum(const fs::path& path, std::uint64_t size) {
  std::ifstream stream(path, std::ios::binary);
  std::vector<char> buffer(1 << 20);
  std::uint64_t state = files::fnv1a64({});
  while (size > 0 && stream) {
    stream.read(buffer.data(),
                static_cast<std::streamsize>(std::min<std::uint64_t>(size, buffer.size())));
    state = files::fnv1a64({buffer.data(), static_cast<std::size_t>(stream.gcount())}, state);
    size -= static_cast<std::uint64_t>(stream.gcount());
  }
  DETFORGE_CHECK(size == 0, "cannot read the file to its end", "check the disk");
  return state;
}

std::string read_end(const fs::path& path, std::size_t count) {
  std::error_code error;
  const auto size = fs::file_size(path, error);
  if (error || size < count) {
    return {};
  }
  std::ifstream stream(path, std::ios::binary);
  stream.seekg(-static_cast<std::streamoff>(count), std::ios::end);
  std::string end(count, '\0');
  stream.read(end.data(), static_cast<std::streamsize>(count));
  return stream ? end : std::string();
}

/// Turns a zip without comment into one whose comment is the seal.
void append_seal(const fs::path& path, const CheckpointSeal& seal) {
  const std::string end = read_end(path, kEndRecordSize);
  DETFORGE_CHECK(end.starts_with("PK\5\6") && end.ends_with(std::string_view("\0\0", 2)),
                 "the checkpoint that was just written does not end like a zip file",
                 "check the disk");
  std::fstream stream(path, std::ios::binary | std::ios::in | std::ios::out);
  const char comment_size[2] = {static_cast<char>(kSealSize), 0};
  stream.seekp(-2, std::ios::end);
  stream.write(comment_size, 2);
  stream << seal_text(seal);
  stream.flush();
  DETFORGE_CHECK(stream.good(), "cannot write the checkpoint's checksum",
                 "free space on that disk");
  stream << fmt::format("{:016x}", checksum(path, fs::file_size(path)));
  stream.close();
  DETFORGE_CHECK(stream.good(), "cannot write the checkpoint's checksum",
                 "free space on that disk");
}

void check_seal(const fs::path& path) {
  const std::string text = read_end(path, kSealSize);
  const char* fix = "use an older checkpoint";
  DETFORGE_CHECK(parse_seal(text), "the checkpoint is damaged: it does not end with its checksum",
                 fix);
  const std::string expected =
      fmt::format("{:016x}", checksum(path, fs::file_size(path) - kHashDigits));
  DETFORGE_CHECK(text.ends_with(expected), "the checkpoint is damaged: its checksum differs", fix);
}

}  // namespace

void write_checkpoint(const fs::path& path, const Value& content, const CheckpointSeal& seal) {
  files::write_atomic(path, [&](const fs::path& temporary) {
    write_torch_file(temporary, content);
    static_cast<void>(
        read_torch_file(temporary));  // compares with the CRCs that were taken from memory
    append_seal(temporary, seal);
    check_seal(temporary);
  });
}

std::optional<CheckpointSeal> peek_checkpoint(const fs::path& path) {
  return parse_seal(read_end(path, kSealSize));
}

Value read_checkpoint(const fs::path& path) {
  try {
    check_seal(path);
    return read_torch_file(path);
  } catch (Error& error) {
    if (error.where().find(path.string()) == std::string::npos) {
      error.add_where(path.string());
    }
    throw;
  }
}

}  // namespace detforge
