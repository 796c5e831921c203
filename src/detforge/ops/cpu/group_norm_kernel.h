#pragma once

#include <cstdint>
#include <vector>

#include "detforge/ops/cpu/cpu_features.h"

namespace detforge::cpu {

/// Maps are NHWC: `pixels` vectors of `channels` floats for each image. `groups` divides channels.
struct GroupNormShape {
  std::int64_t images, pixels, channels, groups;
  float eps;
};

/// What the activation behind the norm does to negative values: times `slope`.
struct GroupNormActivation {
  bool is_there;
  float slope;  ///< 0: ReLU
};

/// Statistics of each image and group, [N,G].
struct GroupNormStatistics {
  std::vector<float> mean, inverse_std;
};

/// y = activation((x - mean) * inverse_std * weight + bias + residual); residual may be nullptr.
/// The statistics are summed up in pieces of a fixed size, in their order: the result does not
/// depend on the number of threads.
GroupNormStatistics group_norm_forward(const GroupNormShape& shape,
                                       const float* x,
                                       const float* weight,
                                       const float* bias,
                                       const float* residual,
                                       GroupNormActivation activation,
                                       float* y,
                                       KernelBuild build = best_kernel_build());

struct GroupNormGradients {
  float* x;
  float* weight;
  float* bias;
  float* residual;  ///< may be nullptr, and is if there is no activation: then it is grad_y
};

/// All written completely. `y` is read only if there is an activation: for the sign of its values.
void group_norm_backward(const GroupNormShape& shape,
                         const float* x,
                         const float* y,
                         const float* weight,
                         const GroupNormStatistics& statistics,
                         GroupNormActivation activation,
                         const float* grad_y,
                         const GroupNormGradients& gradients,
                         KernelBuild build = best_kernel_build());

}  // namespace detforge::cpu
