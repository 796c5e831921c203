#pragma once

#include "detforge/core/tensor.h"

namespace detforge {

/// Maps made twice as high and wide: each pixel becomes a square of four. Backward adds up the
/// square. Channels-last maps stay so, forward and backward; NCHW maps go to LibTorch. Any of
/// the map types; two maps are of one.

/// coarse [N,C,H,W] -> [N,C,2H,2W]
Tensor upsample_twice(const Tensor& coarse);

/// fine += upsample_twice(coarse), without the map in between; returns fine [N,C,2H,2W]. The
/// backward of what made `fine` must not read it. Throws Error if the shapes do not fit.
Tensor upsample_add_(const Tensor& fine, const Tensor& coarse);

/// The channels of upsample_twice(coarse), then those of fine: [N,C+D,2H,2W].
Tensor upsample_concat(const Tensor& coarse, const Tensor& fine);

}  // namespace detforge
