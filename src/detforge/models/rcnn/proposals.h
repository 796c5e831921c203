#pragma once

#include "detforge/core/tensor.h"

namespace detforge {

/// Boxes of one image that may hold an object, without class, best first. P may be 0. No gradient.
struct Proposals {
  Tensor boxes;   ///< [P,4] f32 xyxy, inside the image
  Tensor logits;  ///< [P] f32 objectness
};

}  // namespace detforge
