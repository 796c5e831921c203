#pragma once

#include "detforge/train/precision.h"

namespace detforge::test {

inline PrecisionOptions level(OptLevel level, at::ScalarType half = at::kHalf) {
  PrecisionOptions options = precision_options(level);
  options.half_type = half;
  return options;
}

inline PrecisionOptions with_scale(PrecisionOptions options, LossScaleOptions scale) {
  options.loss_scale = scale;
  return options;
}

}  // namespace detforge::test
