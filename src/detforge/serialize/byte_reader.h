#pragma once

#include <cstdint>
#include <string_view>

namespace detforge::pickle {

/// A pickle's bytes, read from the front. Every function throws Error where the input ends too
/// early.
class ByteReader {
 public:
  /// Borrows `bytes`; reading starts at `position`.
  ByteReader(std::string_view bytes, std::size_t position) : bytes_(bytes), position_(position) {}

  std::size_t position() const { return position_; }

  std::string_view take(std::uint64_t count);
  /// Up to the next newline, which is read but not returned.
  std::string_view take_line();
  /// A little-endian unsigned number of `size` <= 8 bytes.
  std::uint64_t take_unsigned(std::size_t size);
  /// A little-endian two's complement number of any size; an Error if it has more than 8 bytes.
  std::int64_t take_long(std::uint64_t size);
  /// Eight bytes, big-endian (unlike everything else).
  double take_double();

 private:
  std::string_view bytes_;
  std::size_t position_;
};

/// A whole line as a number; an Error if it is anything else.
std::int64_t parse_integer(std::string_view line);
double parse_double(std::string_view line);

}  // namespace detforge::pickle
