#pragma once

#include "detforge/core/tensor.h"
#include "detforge/ops/conv2d.h"

namespace detforge {

struct GroupNormOptions {
  std::int64_t groups = 32;
  double eps = 1e-5;
  Activation activation = Activation::kNone;
  double leaky_slope = 0.1;  ///< only for kLeakyRelu
};

/// activation(group_norm(input) * weight + bias + residual), in one pass behind the statistics.
///   input [N,C,H,W], a map type    weight, bias [C]    residual: undefined, or as the input
/// Statistics and sums are f32 and f64 whatever the type.
/// Statistics are those of each image and group of C / groups channels. Gradients for all tensors.
/// Channels-last maps stay so, forward and backward, and the result does not depend on the number
/// of threads; NCHW maps go to at::group_norm (whose backward turns channels-last maps to NCHW, at
/// ten times the cost). Throws Error if groups do not divide C or shapes do not fit.
/// Ref: Wu, He, Group Normalization, arXiv:1803.08494, Eq. 1 to 6.
Tensor group_norm(const Tensor& input,
                  const Tensor& weight,
                  const Tensor& bias,
                  const GroupNormOptions& options,
                  const Tensor& residual = {});

/// What a normalisation measured, [N*G] f32 each.
struct GroupMoments {
  Tensor mean;
  Tensor inverse_std;  ///< 1 / sqrt(variance + eps), the biased variance
};

/// group_norm() of a channels-last map on the CPU, which also says what it measured.
Tensor group_norm_with_moments(const Tensor& input,
                               const Tensor& weight,
                               const Tensor& bias,
                               const GroupNormOptions& options,
                               const Tensor& residual,
                               GroupMoments& moments);

}  // namespace detforge
