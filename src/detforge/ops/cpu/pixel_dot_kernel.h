#pragma once

#include <cstdint>

#include "detforge/ops/cpu/cpu_features.h"
#include "detforge/ops/cpu/map_data.h"

namespace detforge::cpu {

/// Maps are NHWC: `pixels` vectors of `channels` values for each image.
struct PixelDotShape {
  std::int64_t images, pixels, channels;
};

/// dots [N,pixels] = sum over c of map[n, pixel, c] * vectors[n, c]
void pixel_dot_forward(const PixelDotShape& shape,
                       const ConstMap& map,
                       const float* vectors,
                       float* dots,
                       KernelBuild build = best_kernel_build());

/// Both gradients in one pass over the map, written completely; grad_map, stored as the map,
/// may be null. A vector's
/// gradient is summed over the pixels in their order.
void pixel_dot_backward(const PixelDotShape& shape,
                        const ConstMap& map,
                        const float* vectors,
                        const float* grad_dots,
                        const Map& grad_map,
                        float* grad_vectors,
                        KernelBuild build = best_kernel_build());

}  // namespace detforge::cpu
