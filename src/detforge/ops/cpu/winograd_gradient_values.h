#pragma once

#include "detforge/ops/cpu/winograd.h"
#include "detforge/ops/cpu/winograd_tiles.h"

namespace detforge::cpu {

/// Some tiles of a weight gradient's two maps in Winograd's domain: of the input
/// [point][panel][tile][tile_columns], of the output's gradient [point][tile][output].
class GradientValues {
 public:
  /// Room for `capacity` tiles.
  GradientValues(const ConvKernels& kernels,
                 const WinogradGradient& conv,
                 std::int64_t capacity,
                 const Workspace& workspace)
      : kernels_(kernels),
        conv_(conv),
        grid_(conv.shape),
        grad_shape_{conv.shape.images, conv.shape.height, conv.shape.width, conv.outputs},
        grad_stride_(conv.outputs + kPad),
        in_{.point_stride = ceil_div(conv.shape.channels, kernels.tile_columns) * capacity *
                                kernels.tile_columns +
                            kPad,
            .panel_stride = capacity * kernels.tile_columns},
        grad_{.point_stride = capacity * grad_stride_ + kPad, .panel_stride = kernels.tile_columns},
        in_values_(workspace(kPoints * in_.point_stride)),
        grad_values_(workspace(kPoints * grad_.point_stride)) {}

  /// The grid's tile `tile`, to place `t`.
  void transform(std::int64_t tile, std::int64_t t) const {
    kernels_.winograd_input(conv_.input, conv_.shape, grid_.tile(tile), in_,
                            in_values_ + t * kernels_.tile_columns);
    kernels_.winograd_output_gradient(conv_.grad_output, grad_shape_, grid_.tile(tile), grad_,
                                      grad_values_ + t * grad_stride_);
  }

  /// The sum over the first `tiles` places for one point, some outputs and one panel of inputs;
  /// where it goes to is left open.
  PanelProduct product(std::int64_t point,
                       const Range& outputs,
                       std::int64_t panel,
                       std::int64_t tiles) const {
    return {.rows = outputs.size(),
            .depth = tiles,
            .a = grad_values_ + point * grad_.point_stride + outputs.first,
            .a_stride = grad_stride_,
            .b = in_values_ + point * in_.point_stride + panel * in_.panel_stride};
  }

 private:
  const ConvKernels& kernels_;
  const WinogradGradient& conv_;
  TileGrid grid_;
  MapShape grad_shape_;
  std::int64_t grad_stride_;
  WinogradLayout in_, grad_;
  float *in_values_, *grad_values_;
};

}  // namespace detforge::cpu
