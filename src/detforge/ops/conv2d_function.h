#pragma once

#include "detforge/ops/conv2d.h"
#include "detforge/ops/cpu/conv_plan.h"

/// The convolutions of ops/conv2d by DetForge's own kernels, as fused autograd functions. Outputs
/// and gradients of maps are channels_last and of the input's type; inputs of other layouts are
/// copied. The residual has the input's type; weight and bias each have their own. Kept for
/// backward are the input (the copy, if it was copied), the weight and, if there is an activation,
/// the output. There is no second derivative.
namespace detforge {

/// True if the own kernels compute this: a map type on the CPU, and a plan other than kAten.
bool has_own_kernels(const Tensor& input, const cpu::ConvPlan& plan);

/// activation(conv(input, weight) + bias + residual) and, if `returns_input`, the input as
/// conv2d_and_input gives it (else undefined). Not for N = 0.
ConvAndInput own_conv2d(const Tensor& input,
                        const Tensor& weight,
                        const Tensor& bias,
                        const Conv2dOptions& options,
                        const Tensor& residual,
                        bool returns_input = false);

/// activation(conv_transpose(input, weight) + bias), not for N = 0.
Tensor own_conv_transpose2d(const Tensor& input,
                            const Tensor& weight,
                            const Tensor& bias,
                            const Conv2dOptions& options);

/// The convolution's geometry. For a transposed one: of the convolution that it is the adjoint of.
cpu::ConvShape conv_shape(const Tensor& input, const Tensor& weight, const Conv2dOptions& options);
cpu::ConvShape transposed_conv_shape(const Tensor& input,
                                     const Tensor& weight,
                                     const Conv2dOptions& options);

}  // namespace detforge
