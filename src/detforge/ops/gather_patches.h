#pragma once

#include "detforge/core/tensor.h"

namespace detforge {

/// The 3x3 neighbourhoods of chosen cells, so that a convolution can be evaluated there alone:
/// linear(gather_patches(map, cells), weight.flatten(1)) is conv2d(map, weight, padding 1) at those
/// cells.
///   map    [N,C,H,W] f32, CPU; its gradient has its layout, NCHW or channels-last
///   cells  [S] i64, CPU: (image * H + y) * W + x, in any order, repeats allowed
///   return [S,C*9] f32: channel, row and column of the patch, columns fastest; 0 outside the map
/// Gradient for map: the patches' gradients, added up in the order of `cells`, so it is the same
/// for any number of threads. S = 0 gives an empty result whose gradient is zero.
/// Throws Error on other types, or a cell outside the maps.
Tensor gather_patches(const Tensor& map, const Tensor& cells);

}  // namespace detforge
