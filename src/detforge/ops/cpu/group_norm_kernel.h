#pragma once

#include <cstdint>
#include <vector>

#include "detforge/ops/cpu/cpu_features.h"
#include "detforge/ops/cpu/map_data.h"

namespace detforge::cpu {

/// Maps are NHWC: `pixels` vectors of `channels` values for each image, all of one storage.
/// `groups` divides channels.
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

/// y = activation((x - mean) * inverse_std * weight + bias + residual); residual may be null.
/// The statistics are summed up in pieces of a fixed size, in their order: the result does not
/// depend on the number of threads.
GroupNormStatistics group_norm_forward(const GroupNormShape& shape,
                                       const ConstMap& x,
                                       const float* weight,
                                       const float* bias,
                                       const ConstMap& residual,
                                       GroupNormActivation activation,
                                       const Map& y,
                                       KernelBuild build = best_kernel_build());

struct GroupNormGradients {
  Map x;
  float* weight;
  float* bias;
  Map residual;  ///< may be null, and is if there is no activation: then it is grad_y
};

/// All written completely. `y` is read only if there is an activation: for the sign of its values.
void group_norm_backward(const GroupNormShape& shape,
                         const ConstMap& x,
                         const ConstMap& y,
                         const float* weight,
                         const GroupNormStatistics& statistics,
                         GroupNormActivation activation,
                         const ConstMap& grad_y,
                         const GroupNormGradients& gradients,
                         KernelBuild build = best_kernel_build());

}  // namespace detforge::cpu
