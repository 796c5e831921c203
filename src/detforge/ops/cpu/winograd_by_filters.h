#pragma once

#include "detforge/ops/cpu/winograd.h"

/// Winograd for a handful of tiles and many filters (a network's last, smallest maps), where moving
/// the filters, four times as large in Winograd's domain, costs more than multiplying them: tiles
/// are transformed once, and filters a part at a time that never leaves the cache.
namespace detforge::cpu {

inline constexpr std::int64_t kFewTiles = 128;

/// As winograd_convolution and winograd_filter_gradient, for at most kFewTiles tiles.
void winograd_by_filters(const ConvKernels& kernels,
                         const WinogradConv& conv,
                         const Workspace& workspace);

void winograd_gradient_by_filters(const ConvKernels& kernels,
                                  const float* input,
                                  const MapShape& shape,
                                  const float* grad_output,
                                  std::int64_t outputs,
                                  float* gradient,
                                  const Workspace& workspace);

}  // namespace detforge::cpu
