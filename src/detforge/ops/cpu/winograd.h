#pragma once

#include "detforge/ops/cpu/conv_kernels.h"
#include "detforge/ops/cpu/workspace.h"

/// 3x3 convolutions of stride 1 and padding 1 by Winograd's F(4x4,3x3): a quarter of the direct
/// algorithm's multiplications in all three passes. Lavin and Gray, arXiv:1509.09308; the points
/// are 0, +-sqrt(1/2), +-sqrt(2), infinity (docs/decisions/0006). Channels, in and out, must be
/// multiples of the kernels' lanes. Results have the same bits for any number of threads.
namespace detforge::cpu {

struct WinogradConv {
  ConstMap input = {};  ///< NHWC
  MapShape shape;       ///< of the input
  FilterView filters;
  std::int64_t outputs = 0;  ///< output channels
  Epilogue epilogue;
  Map output = {};  ///< NHWC, the input's size
};

inline MapShape output_shape(const WinogradConv& conv) {
  return {conv.shape.images, conv.shape.height, conv.shape.width, conv.outputs};
}

/// output = epilogue(input * filters). Backward-data is the same with the gradient of the output as
/// input and the filters' strides exchanged and flipped.
void winograd_convolution(const ConvKernels& kernels,
                          const WinogradConv& conv,
                          const Workspace& workspace);

struct WinogradGradient {
  ConstMap input = {};        ///< NHWC
  MapShape shape;             ///< of the input
  ConstMap grad_output = {};  ///< NHWC, the input's size
  std::int64_t outputs = 0;   ///< output channels
  float* gradient = nullptr;  ///< [outputs][inputs][3][3]
};

/// The filters' gradient, by the adjoint of each step:
/// G^T [ sum over tiles of (A dY A^T) (x) (B^T X B) ] G.
void winograd_filter_gradient(const ConvKernels& kernels,
                              const WinogradGradient& conv,
                              const Workspace& workspace);

}  // namespace detforge::cpu
