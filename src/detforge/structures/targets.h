#pragma once

#include "detforge/core/tensor.h"

namespace detforge {

/// Ground truth of one image, crowd objects left out. G may be 0.
struct Targets {
  Tensor boxes;   ///< [G,4] f32 xyxy in pixels of the network input
  Tensor labels;  ///< [G] i64, 0..K-1
};

}  // namespace detforge
