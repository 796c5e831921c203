#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "detforge/ops/cpu/conv_kernels.h"

namespace detforge::cpu {

/// One convolution's geometry, NHWC; a transposed one is described by the convolution that it is
/// the adjoint of. Sizes are (height, width).
struct ConvShape {
  std::int64_t images = 0, in_channels = 0, out_channels = 0;
  std::array<std::int64_t, 2> input{0, 0};
  std::array<std::int64_t, 2> kernel{1, 1};
  std::array<std::int64_t, 2> stride{1, 1};
  std::array<std::int64_t, 2> padding{0, 0};
  std::array<std::int64_t, 2> dilation{1, 1};
  std::int64_t groups = 1;

  /// Output pixels along `axis` (0: height).
  std::int64_t output(std::size_t axis) const {
    return (input[axis] + 2 * padding[axis] - dilation[axis] * (kernel[axis] - 1) - 1) /
               stride[axis] +
           1;
  }
};

enum class ConvAlgorithm {
  kAten,      ///< at::conv2d: groups, and processors without AVX2
  kGemm,      ///< matrix product of pixel rows (conv_gemm.h)
  kWinograd,  ///< F(4x4,3x3) (winograd.h)
};

const char* conv_algorithm_name(ConvAlgorithm algorithm);

/// How each pass of a convolution is computed. A function of the shape and the processor's
/// instruction set alone, never of measured time: the same shape always gives the same bits.
struct ConvPlan {
  ConvAlgorithm forward = ConvAlgorithm::kAten;
  ConvAlgorithm backward_data = ConvAlgorithm::kAten;
  ConvAlgorithm backward_weight = ConvAlgorithm::kAten;
};

ConvPlan plan_conv(const ConvShape& shape, const ConvKernels* kernels = conv_kernels());

/// For people: what decided plan_conv, with the estimated costs.
std::string explain_plan(const ConvShape& shape, const ConvKernels* kernels = conv_kernels());

}  // namespace detforge::cpu
