#pragma once

#include <array>

#include "detforge/core/tensor.h"
#include "detforge/ops/activation.h"

namespace detforge {

/// The activation, in place on `output` if that is f32; f16 and bf16 are computed in f32. Safe
/// behind a convolution, linear layer or norm: their backward does not read their output.
/// `leaky_slope`: only for kLeakyRelu.
Tensor activate_(Tensor output, Activation activation, double leaky_slope = 0.1);

/// activate_(output + residual), also in place; residual undefined or of the output's shape.
Tensor add_and_activate_(Tensor output,
                         const Tensor& residual,
                         Activation activation,
                         double leaky_slope = 0.1);

struct Conv2dOptions {
  std::array<std::int64_t, 2> stride{1, 1};
  std::array<std::int64_t, 2> padding{0, 0};
  std::array<std::int64_t, 2> dilation{1, 1};
  std::int64_t groups = 1;
  Activation activation = Activation::kNone;
  double leaky_slope = 0.1;  ///< only for kLeakyRelu
};

/// The choke point of every convolution: activation(conv(input, weight) + bias + residual).
///   input [N,Cin,H,W]    weight [Cout,Cin/groups,kh,kw]    bias [Cout] or undefined
///   residual: undefined, or the output's shape and type
/// Any of the map types (ops/map_type.h); the output has the input's, gradients have those of their
/// tensors, sums are f32. On the CPU: by DetForge's own kernels (ops/cpu/conv_passes.h; groups and
/// processors without AVX2 excepted), which give channels_last outputs and copy inputs of other
/// layouts; with kernel_backend() kAten, and for everything else, by at::conv2d, in f32 between
/// conversions. Bias, residual and activation happen on the way into the output: no further tensor
/// is kept for backward. N = 0 is defined, forward and backward. Gradients for all tensor
/// arguments, once.
Tensor conv2d(const Tensor& input,
              const Tensor& weight,
              const Tensor& bias,
              const Conv2dOptions& options,
              const Tensor& residual = {});

struct ConvAndInput {
  Tensor output, input;
};

/// conv2d of an input that a shortcut around the convolution uses once more: give the shortcut the
/// returned `input`. Its gradient is then added while the convolution's own one is stored, which
/// saves a pass over the map. Same values and gradients as conv2d and the input itself, whose
/// storage it shares: do not change it in place. N = 0 is defined.
ConvAndInput conv2d_and_input(const Tensor& input,
                              const Tensor& weight,
                              const Tensor& bias,
                              const Conv2dOptions& options);

/// Transposed convolution with the same rules (mask head's 2x2 stride 2); no residual.
///   weight [Cin,Cout/groups,kh,kw]
Tensor conv_transpose2d(const Tensor& input,
                        const Tensor& weight,
                        const Tensor& bias,
                        const Conv2dOptions& options);

/// A 1x1 convolution of which each image needs one output channel alone (the mask of its class).
///   input [N,C,H,W]    weight [K,C,1,1]    bias [K]    channel [N] i64, 0..K-1
///   return [N,H,W] f32
/// Equal to channel[n] of conv2d's image n, at a K-th of its work and memory. N = 0 is defined,
/// forward and backward. Gradients for input, weight and bias.
Tensor conv1x1_at_channel(const Tensor& input,
                          const Tensor& weight,
                          const Tensor& bias,
                          const Tensor& channel);

/// The choke point of every fully connected layer: activation(input weight^T + bias).
///   input [N,In]    weight [Out,In]    bias [Out] or undefined    return [N,Out]
Tensor linear(const Tensor& input,
              const Tensor& weight,
              const Tensor& bias,
              Activation activation = Activation::kNone);

}  // namespace detforge
