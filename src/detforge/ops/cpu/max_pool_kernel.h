#pragma once

#include <cstdint>

#include "detforge/ops/cpu/cpu_features.h"
#include "detforge/ops/cpu/map_data.h"

namespace detforge::cpu {

/// Maps are NHWC, input and output of one storage.
struct MaxPoolShape {
  std::int64_t images, channels, height, width;
  std::int64_t out_height, out_width;
  std::int64_t kernel, stride, padding;
  bool relu;
};

/// In place of a position: the result is the 0 of ReLU, and no input's.
constexpr std::uint8_t kNoPosition = 255;

/// output = highest of each window; positions (nullptr: not wanted) = row * kernel + column of the
/// first highest value inside its window.
void max_pool_forward(const MaxPoolShape& shape,
                      const ConstMap& input,
                      const Map& output,
                      std::uint8_t* positions,
                      KernelBuild build = best_kernel_build());

/// grad_input, written completely: each value is summed over the windows in their order, by one
/// thread.
void max_pool_backward(const MaxPoolShape& shape,
                       const ConstMap& grad_output,
                       const std::uint8_t* positions,
                       const Map& grad_input,
                       KernelBuild build = best_kernel_build());

}  // namespace detforge::cpu
