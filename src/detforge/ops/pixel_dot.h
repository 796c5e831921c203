#pragma once

#include "detforge/core/tensor.h"

namespace detforge {

/// The dot product of each pixel's channels with the vector of its image.
///   map [N,C,H,W] f32, NCHW or channels-last, CPU    vectors [N,C] f32    return [N,H,W]
/// N = 0 is defined. Gradients for both; that of a channels-last map is channels-last. The sums do
/// not depend on the number of threads. Throws Error if shapes or types do not fit.
Tensor pixel_dot(const Tensor& map, const Tensor& vectors);

}  // namespace detforge
