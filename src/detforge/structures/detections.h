#pragma once

#include "detforge/core/tensor.h"

namespace detforge {

/// What a detector found in one image, by falling score. D may be 0.
struct Detections {
  Tensor boxes;       ///< [D,4] f32 xyxy
  Tensor scores;      ///< [D] f32, 0..1
  Tensor labels;      ///< [D] i64, 0..K-1
  Tensor masks = {};  ///< [D,M,M] f32: probability of the object on an M x M grid over its box;
                      ///< undefined if the model predicts no masks
};

}  // namespace detforge
