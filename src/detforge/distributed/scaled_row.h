#pragma once

#include <cstdint>

#include "detforge/ops/cpu/map_data.h"

namespace detforge {

/// A row of f32 as it travels: a power of two (f32, in the first two words), then value * power in
/// 16 bits each. The power brings the largest value to [2^13, 2^14), so that f16 neither overflows
/// nor loses small rows; it is NaN, and so are all values of the row, if one is not finite, or
/// 2^127 or more.
namespace scaled_row {

/// In 16-bit words.
constexpr std::int64_t packed_size(std::int64_t values) {
  return values + 2;
}

/// Rounds to the nearest, ties to even. What that loses stays in `values` (if all are finite).
/// `storage` is kHalf or kBFloat16.
void pack(float* values, std::int64_t count, cpu::Storage storage, std::int16_t* packed);

/// values = the row.
void unpack(const std::int16_t* packed, std::int64_t count, cpu::Storage storage, float* values);

/// values += the row.
void add(const std::int16_t* packed, std::int64_t count, cpu::Storage storage, float* values);

bool is_finite(const std::int16_t* packed);

}  // namespace scaled_row
}  // namespace detforge
