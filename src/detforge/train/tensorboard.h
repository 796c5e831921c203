#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "detforge/structures/image.h"

namespace detforge {

/// Writes one new TensorBoard event file into a folder. Steps of earlier files from `start_step` on
/// are hidden by TensorBoard, so that a resumed run shows each step once. Not thread-safe. The
/// format: records of {u64 length, u32 masked CRC-32C of the length, data, u32 masked CRC-32C of
/// the data}, little endian, the data being a protocol buffer `Event`. Ref:
/// tensorflow/core/util/event.proto, tensorflow/core/lib/io/record_writer.cc.
class TensorBoardWriter {
 public:
  /// Makes the folder and the file. Throws Error if it cannot be made.
  TensorBoardWriter(const std::filesystem::path& folder, std::int64_t start_step);

  void add_scalar(std::string_view name, double value, std::int64_t step);
  /// `encoded` is the content of a PNG or JPEG file of that size.
  void add_image(std::string_view name,
                 std::string_view encoded,
                 ImageSize size,
                 std::int64_t step);
  /// Hands what was added to the system. Throws Error if the disk is full.
  void flush();
  const std::filesystem::path& path() const { return path_; }

 private:
  void write_event(std::int64_t step, int field, std::string_view payload);
  void write_record(std::string_view data);

  std::filesystem::path path_;
  std::ofstream stream_;
};

/// CRC-32C (Castagnoli) of the bytes.
std::uint32_t crc32c(std::string_view bytes);

}  // namespace detforge
