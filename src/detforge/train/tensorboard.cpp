#include "detforge/train/tensorboard.h"

#include <array>
#include <bit>
#include <cstring>
#include <unistd.h>

#include <fmt/format.h>

#include "detforge/core/error.h"
#include "detforge/core/timer.h"

namespace detforge {
namespace {

static_assert(std::endian::native == std::endian::little, "event files are little endian");

template <typename T>
std::string raw(T value) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

// Protocol buffer encoding: a field is its number and wire type, then a varint, 4 or 8 bytes, or a
// length and bytes.
enum WireType { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) {
    bytes += static_cast<char>(0x80 | (value & 0x7F));
  }
  return bytes + static_cast<char>(value);
}

std::string tag(int field, WireType type) {
  return varint(static_cast<std::uint64_t>(field) << 3 | type);
}
std::string integer_field(int field, std::int64_t value) {
  return tag(field, kVarint) + varint(static_cast<std::uint64_t>(value));
}
std::string double_field(int field, double value) {
  return tag(field, kFixed64) + raw(value);
}
std::string float_field(int field, float value) {
  return tag(field, kFixed32) + raw(value);
}
std::string bytes_field(int field, std::string_view bytes) {
  return tag(field, kBytes) + varint(bytes.size()) + std::string(bytes);
}

// Field numbers of event.proto and summary.proto.
constexpr int kEventWallTime = 1, kEventStep = 2, kEventFileVersion = 3, kEventSummary = 5,
              kEventSessionLog = 7;
constexpr int kSummaryValue = 1, kValueTag = 1, kValueScalar = 2, kValueImage = 4;
constexpr int kImageHeight = 1, kImageWidth = 2, kImageColorspace = 3, kImageEncoded = 4;
constexpr int kSessionStatus = 1, kSessionStart = 1, kRgb = 3;

std::uint32_t masked_crc(std::string_view bytes) {
  return std::rotr(crc32c(bytes), 15) + 0xA282EAD8U;
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  static const auto table = [] {
    std::array<std::uint32_t, 256> made{};
    for (std::uint32_t i = 0; i < 256; ++i) {
      std::uint32_t crc = i;
      for (int bit = 0; bit < 8; ++bit) {
        crc = crc & 1 ? crc >> 1 ^ 0x82F63B78U : crc >> 1;
      }
      made[i] = crc;
    }
    return made;
  }();
  std::uint32_t crc = 0xFFFFFFFFU;
  for (const char byte : bytes) {
    crc = table[(crc ^ static_cast<unsigned char>(byte)) & 0xFF] ^ crc >> 8;
  }
  return ~crc;
}

TensorBoardWriter::TensorBoardWriter(const std::filesystem::path& folder, std::int64_t start_step) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  // TensorBoard reads the files of a folder in order of name.
  const auto seconds = static_cast<std::int64_t>(wall_clock_s());
  int number = 0;
  do {
    path_ = folder / fmt::format("events.out.tfevents.{:010d}.{:06d}.{}.detforge", seconds,
                                 ::getpid(), number++);
  } while (std::filesystem::exists(path_));
  stream_.open(path_, std::ios::binary | std::ios::app);
  write_event(0, kEventFileVersion, "brain.Event:2");
  if (start_step > 0) {
    write_event(start_step, kEventSessionLog, integer_field(kSessionStatus, kSessionStart));
  }
  flush();
}

void TensorBoardWriter::add_scalar(std::string_view name, double value, std::int64_t step) {
  const std::string entry =
      bytes_field(kValueTag, name) + float_field(kValueScalar, static_cast<float>(value));
  write_event(step, kEventSummary, bytes_field(kSummaryValue, entry));
}

void TensorBoardWriter::add_image(std::string_view name,
                                  std::string_view encoded,
                                  ImageSize size,
                                  std::int64_t step) {
  const std::string image =
      integer_field(kImageHeight, size.height) + integer_field(kImageWidth, size.width) +
      integer_field(kImageColorspace, kRgb) + bytes_field(kImageEncoded, encoded);
  const std::string entry = bytes_field(kValueTag, name) + bytes_field(kValueImage, image);
  write_event(step, kEventSummary, bytes_field(kSummaryValue, entry));
}

void TensorBoardWriter::write_event(std::int64_t step, int field, std::string_view payload) {
  write_record(double_field(kEventWallTime, wall_clock_s()) + integer_field(kEventStep, step) +
               bytes_field(field, payload));
}

void TensorBoardWriter::write_record(std::string_view data) {
  const std::string length = raw(static_cast<std::uint64_t>(data.size()));
  stream_ << length << raw(masked_crc(length)) << data << raw(masked_crc(data));
}

void TensorBoardWriter::flush() {
  stream_.flush();
  if (!stream_.good()) {
    stream_.clear();  // what was added is lost; the next flush tries again
    throw Error("cannot write the TensorBoard events", "check the folder and its free space")
        .add_where(path_.string());
  }
}

}  // namespace detforge
