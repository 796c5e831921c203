#pragma once

#include "detforge/ops/cpu/winograd.h"

/// Winograd for a handful of tiles and many filters (a network's last, smallest maps), where moving
/// the filters, four times as large in Winograd's domain, costs more than multiplying them: tiles
/// are transformed once, and filters a part at a time that stays in the L2 cache (1.8 MB with
/// AVX-512, half of it with AVX2). The same bits as block after block of tiles.
namespace detforge::cpu {

inline constexpr std::int64_t kFewTiles = 128;

/// As winograd_convolution, for at most kFewTiles tiles; threads share out the panels of outputs.
void winograd_by_filters(const ConvKernels& kernels,
                         const WinogradConv& conv,
                         const Workspace& workspace);

/// As winograd_filter_gradient, for at most kFewTiles tiles; threads share out gradient_parts().
void winograd_gradient_by_filters(const ConvKernels& kernels,
                                  const WinogradGradient& conv,
                                  const Workspace& workspace);
std::int64_t gradient_parts(const ConvKernels& kernels, const WinogradGradient& conv);

}  // namespace detforge::cpu
