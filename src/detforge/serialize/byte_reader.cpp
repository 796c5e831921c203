#include "detforge/serialize/byte_reader.h"

#include <charconv>
#include <cstring>

#include <fmt/format.h>

#include "detforge/core/error.h"
#include "detforge/serialize/pickle_object.h"

namespace detforge::pickle {
namespace {

template <typename Number>
Number parse_number(std::string_view line) {
  Number number = 0;
  const char* end = line.data() + line.size();
  const auto [stop, error] = std::from_chars(line.data(), end, number);
  if (line.empty() || error != std::errc{} || stop != end) {
    fail_malformed("a broken or too big number");
  }
  return number;
}

}  // namespace

std::string_view ByteReader::take(std::uint64_t count) {
  if (count > bytes_.size() - position_) {
    fail_malformed(fmt::format("it ends at byte {}, inside an object", bytes_.size()));
  }
  const std::string_view taken = bytes_.substr(position_, static_cast<std::size_t>(count));
  position_ += taken.size();
  return taken;
}

std::string_view ByteReader::take_line() {
  const std::size_t end = bytes_.find('\n', position_);
  if (end == std::string_view::npos) {
    fail_malformed("it ends inside a line");
  }
  const std::string_view line = take(end - position_);
  take(1);
  return line;
}

std::uint64_t ByteReader::take_unsigned(std::size_t size) {
  std::uint64_t number = 0;
  const std::string_view taken = take(size);
  for (std::size_t i = 0; i < size; ++i) {
    number |= std::uint64_t{static_cast<unsigned char>(taken[i])} << (8 * i);
  }
  return number;
}

std::int64_t ByteReader::take_long(std::uint64_t size) {
  const std::string_view taken = take(size);
  DETFORGE_CHECK(size <= 8, fmt::format("an integer of {} bytes", size),
                 "only 64-bit integers can be read");
  const bool negative = !taken.empty() && static_cast<unsigned char>(taken.back()) >= 0x80;
  std::uint64_t number = negative ? ~std::uint64_t{0} : 0;
  for (std::size_t i = taken.size(); i-- > 0;) {
    number = number << 8 | static_cast<unsigned char>(taken[i]);
  }
  return static_cast<std::int64_t>(number);
}

double ByteReader::take_double() {
  std::uint64_t bits = 0;
  for (const char byte : take(8)) {
    bits = bits << 8 | static_cast<unsigned char>(byte);
  }
  double number = 0;
  std::memcpy(&number, &bits, sizeof number);
  return number;
}

std::int64_t parse_integer(std::string_view line) {
  return parse_number<std::int64_t>(line);
}
double parse_double(std::string_view line) {
  return parse_number<double>(line);
}

}  // namespace detforge::pickle
