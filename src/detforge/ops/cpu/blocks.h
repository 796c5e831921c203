#pragma once

#include <cstdint>

/// How the convolutions' drivers cut their work into blocks.
namespace detforge::cpu {

/// Floats between arrays and between rows that keep their distances from being powers of two, which
/// would fall into few sets of a cache. A cache line, so alignment stays.
inline constexpr std::int64_t kPad = 16;

inline std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

struct Range {
  std::int64_t first = 0, end = 0;
  std::int64_t size() const { return end - first; }
};

/// Part `part` of `parts` nearly equal ones of 0..count-1.
inline Range part_of(std::int64_t count, std::int64_t part, std::int64_t parts) {
  return {count * part / parts, count * (part + 1) / parts};
}

}  // namespace detforge::cpu
