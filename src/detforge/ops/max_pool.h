#pragma once

#include "detforge/core/tensor.h"

namespace detforge {

struct MaxPoolOptions {
  std::int64_t kernel = 2;
  std::int64_t stride = 2;
  std::int64_t padding = 0;  ///< on all four sides, at most half of the kernel
  bool relu = false;         ///< max(result, 0) in the same pass
};

/// The highest value of each square window, per channel.
///   input [N,C,H,W], a map type    return [N,C,(H + 2 padding - kernel) / stride + 1, ...]
/// The gradient goes to the first highest value of a window, rows first; NaN counts as the highest.
/// Values and gradients are those of at::max_pool2d (and relu), which NCHW maps and kernels above
/// 15 go to. Channels-last maps stay so, forward and backward, and keep one byte per output for
/// backward, not eight. Kernel 1 takes every stride-th pixel. Throws Error if no window fits.
Tensor max_pool(const Tensor& input, const MaxPoolOptions& options);

}  // namespace detforge
