#pragma once

#include <vector>

#include "detforge/ops/cpu/pixel_rows.h"
#include "detforge/ops/cpu/workspace.h"

/// Convolutions of any kernel size, stride and dilation as matrix products of pixel rows, NHWC.
/// A forward pass, each of the step_y x step_x interleaved parts of a backward-data pass, and a
/// linear layer (pixels without neighbours) are all such products. Results have the same bits for
/// any number of threads.
namespace detforge::cpu {

/// Weights in memory: see ConvTap.
struct ConvWeights {
  const float* data = nullptr;
  std::int64_t input_stride = 0, output_stride = 0;
};

/// Where the output pixel (y, x) of the grid lies: row first_y + y * step_y, column
/// first_x + x * step_x of an NHWC map.
struct OutputPlaces {
  Map data = {};
  std::int64_t height = 0, width = 0, channels = 0;  ///< of the whole map
  std::int64_t first_y = 0, first_x = 0, step_y = 1, step_x = 1;
};

struct GemmConv {
  ConstMap input = {};
  MapShape shape;  ///< of the input
  std::vector<ConvTap> taps;
  PixelRows::Grid grid;
  ConvWeights weights;
  Epilogue epilogue;
  OutputPlaces output;
};

/// output = epilogue(input * weights) at the places of the grid.
void gemm_convolution(const ConvKernels& kernels, const GemmConv& conv, const Workspace& workspace);

struct GemmWeightGradient {
  ConstMap input = {};
  MapShape shape;  ///< of the input
  std::vector<ConvTap> taps;
  PixelRows::Grid grid;
  ConstMap grad_output = {};  ///< NHWC, the grid's size
  std::int64_t outputs = 0;
  float* gradient = nullptr;  ///< laid out as the weights
  std::int64_t input_stride = 0, output_stride = 0;
};

/// gradient(o, tap, c) = sum over pixels of grad_output(pixel, o) * input(pixel moved by tap, c)
void gemm_weight_gradient(const ConvKernels& kernels,
                          const GemmWeightGradient& conv,
                          const Workspace& workspace);

}  // namespace detforge::cpu
