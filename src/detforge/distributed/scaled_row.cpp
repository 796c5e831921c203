#include "detforge/distributed/scaled_row.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include "detforge/ops/cpu/conv_kernels.h"

namespace detforge::scaled_row {
namespace {

constexpr std::int64_t kBlock = 2048;  // values: they stay in the first cache between the loops

float power_of(const std::int16_t* packed) {
  float power = 0;
  std::memcpy(&power, packed, sizeof(power));
  return power;
}

float power_for(const float* values, std::int64_t count) {
  // Without the sign, bits are ordered as the numbers are, and what is not finite comes last.
  std::int32_t largest = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    largest = std::max(largest, std::bit_cast<std::int32_t>(values[i]) & 0x7FFFFFFF);
  }
  const std::int32_t exponent = (largest >> 23) - 127;
  // What would round up to 2^128 is no number of f32 any more: such rows count as not finite.
  return exponent >= 127 ? std::numeric_limits<float>::quiet_NaN()
                         : std::ldexp(1.0F, std::min(13 - exponent, 126));
}

void store(const float* from, std::int64_t count, cpu::Storage storage, std::int16_t* to) {
  if (const auto* kernels = cpu::conv_kernels()) {
    kernels->store_values(from, count, {to, storage});
  } else if (storage == cpu::Storage::kHalf) {
    std::copy_n(from, count, reinterpret_cast<c10::Half*>(to));
  } else {
    std::copy_n(from, count, reinterpret_cast<c10::BFloat16*>(to));
  }
}

void load(const std::int16_t* from, std::int64_t count, cpu::Storage storage, float* to) {
  if (const auto* kernels = cpu::conv_kernels()) {
    kernels->load_values({from, storage}, count, to);
  } else if (storage == cpu::Storage::kHalf) {
    std::copy_n(reinterpret_cast<const c10::Half*>(from), count, to);
  } else {
    std::copy_n(reinterpret_cast<const c10::BFloat16*>(from), count, to);
  }
}

/// use(i, value) for each value of the row.
template <typename Use>
void for_values(const std::int16_t* packed,
                std::int64_t count,
                cpu::Storage storage,
                const Use& use) {
  const float inverse = 1 / power_of(packed);
  std::array<float, kBlock> block;
  for (std::int64_t first = 0; first < count; first += kBlock) {
    const std::int64_t part = std::min(kBlock, count - first);
    load(packed + packed_size(first), part, storage, block.data());
    for (std::int64_t i = 0; i < part; ++i) {
      use(first + i, block[static_cast<std::size_t>(i)] * inverse);
    }
  }
}

}  // namespace

void pack(float* values, std::int64_t count, cpu::Storage storage, std::int16_t* packed) {
  const float power = power_for(values, count);
  std::memcpy(packed, &power, sizeof(power));
  if (!is_finite(packed)) {
    std::fill_n(packed + packed_size(0), count, std::int16_t{0});
    return;
  }
  const float inverse = 1 / power;
  std::array<float, kBlock> block;
  for (std::int64_t first = 0; first < count; first += kBlock) {
    const std::int64_t part = std::min(kBlock, count - first);
    float* rest = values + first;
    std::int16_t* to = packed + packed_size(first);
    for (std::int64_t i = 0; i < part; ++i) {
      block[static_cast<std::size_t>(i)] = rest[i] * power;
    }
    store(block.data(), part, storage, to);
    load(to, part, storage, block.data());
    for (std::int64_t i = 0; i < part; ++i) {
      rest[i] -= block[static_cast<std::size_t>(i)] * inverse;
    }
  }
}

void unpack(const std::int16_t* packed, std::int64_t count, cpu::Storage storage, float* values) {
  for_values(packed, count, storage, [=](std::int64_t i, float value) { values[i] = value; });
}

void add(const std::int16_t* packed, std::int64_t count, cpu::Storage storage, float* values) {
  for_values(packed, count, storage, [=](std::int64_t i, float value) { values[i] += value; });
}

bool is_finite(const std::int16_t* packed) {
  return std::isfinite(power_of(packed));
}

}  // namespace detforge::scaled_row
