#pragma once

#include "detforge/ops/conversion_log.h"
#include "detforge/ops/map_type.h"

namespace detforge {

/// For ops without code for maps of 16 bits: computes on an f32 copy of such a map, which the
/// ConversionLog counts as `op`; the result has the input's type again. Any other map as it is.
template <typename Compute>
Tensor in_f32(const char* op, const Tensor& input, const Compute& compute) {
  if (!is_half_type(input.scalar_type())) {
    return compute(input);
  }
  ConversionLog::add(op);
  return to_map_type(compute(widen(input)), input.scalar_type());
}

}  // namespace detforge
