#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "detforge/serialize/value.h"

namespace detforge {

/// A Darknet .weights file: a header and numbers, without a word on what they belong to. The file:
/// major, minor, revision as 32-bit integers; `seen`, in 32 bits before version 0.2, else in 64;
/// then f32 numbers to the end; all little-endian. Ref: Darknet's load_weights_upto.
struct DarknetFile {
  std::int32_t major = 0, minor = 2, revision = 5;  ///< what today's Darknet writes
  std::int64_t seen = 0;                            ///< images that the network was trained on
  Tensor values = {};                               ///< [n] f32
};

/// Whether the first bytes can be such a file's: there is no magic number, but versions are small.
bool is_darknet_file(std::string_view content);

/// Throws Error if the header is cut short, `seen` is negative, or what follows is no whole number
/// of floats.
DarknetFile read_darknet_file(std::string_view content);

/// Atomic, as every file. Throws Error if `seen` does not fit a version before 0.2.
void write_darknet_file(const std::filesystem::path& path, const DarknetFile& file);

/// The file as read_torch_file() hands it out: {"darknet": header, "values": tensor}.
Value to_value(const DarknetFile& file);
/// The header alone, {"major", "minor", "revision", "seen"}, to be kept beside converted weights.
Value darknet_header(const DarknetFile& file);
bool holds_darknet_file(const Value& content);
/// Back from to_value(), or, without values, from {"darknet": header}. Throws Error for other
/// content.
DarknetFile to_darknet_file(const Value& content);

}  // namespace detforge
