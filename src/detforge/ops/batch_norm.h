#pragma once

#include "detforge/core/tensor.h"
#include "detforge/ops/conv2d.h"

namespace detforge {

struct BatchNormOptions {
  double eps = 1e-5;
  double momentum = 0.1;  ///< part of this batch's statistics in the running ones
  Activation activation = Activation::kNone;
  double leaky_slope = 0.1;  ///< only for kLeakyRelu
};

/// activation(batch_norm(input) * weight + bias + residual) by the batch's own statistics, in one
/// pass behind them; running_mean and running_var [C] move towards the batch's mean and unbiased
/// variance.
///   input [N,C,H,W], a map type, at least one pixel    weight, bias [C]    residual: undefined, or
///   the input's shape
/// Gradients for input, weight, bias and residual. Channels-last maps stay so, forward and
/// backward, and the result does not depend on the number of threads; NCHW maps go to
/// at::batch_norm (whose backward of channels-last maps takes several times as long). Ref: Ioffe,
/// Szegedy, Batch Normalization, arXiv:1502.03167, Algorithm 1.
Tensor batch_norm(const Tensor& input,
                  const Tensor& weight,
                  const Tensor& bias,
                  const Tensor& running_mean,
                  const Tensor& running_var,
                  const BatchNormOptions& options,
                  const Tensor& residual = {});

}  // namespace detforge
