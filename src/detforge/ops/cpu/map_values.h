#pragma once

#include <cstdint>

#include "detforge/ops/cpu/conv_kernels.h"

/// For kernels that are written for floats: a piece of a map in whatever storage it has. Storages
/// other than kFloat need conv_kernels().
namespace detforge::cpu {

/// `count` values: in place, or converted into `scratch`.
inline const float* read_values(const ConstMap& map, std::int64_t count, float* scratch) {
  if (map.storage() == Storage::kFloat) {
    return map.as<float>();
  }
  conv_kernels()->load_values(map, count, scratch);
  return scratch;
}

/// Where values for `map` are to be written: in place, or into `scratch`; then finish_values().
inline float* place_of(const Map& map, float* scratch) {
  return map.storage() == Storage::kFloat ? map.as<float>() : scratch;
}

inline void finish_values(const float* place, std::int64_t count, const Map& map) {
  if (map.storage() != Storage::kFloat) {
    conv_kernels()->store_values(place, count, map);
  }
}

}  // namespace detforge::cpu
