#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "detforge/core/tensor.h"

namespace detforge {

/// What a backbone promises about one of its outputs; forward() returns the tensors in the same
/// order.
struct FeatureSpec {
  std::string name;  ///< res2..res5 or p2..p6
  std::int64_t channels = 0;
  std::int64_t stride = 0;  ///< image pixels per feature pixel
};

/// Positions of `names` in `specs`. Throws Error naming what is missing and what there is.
std::vector<std::size_t> find_features(const std::vector<FeatureSpec>& specs,
                                       const std::vector<std::string>& names);

/// The strides of specs[position] for each of `positions`.
std::vector<std::int64_t> strides_of(const std::vector<FeatureSpec>& specs,
                                     const std::vector<std::size_t>& positions);

/// The level of a pyramid whose maps have this stride, a power of two: 2 for stride 4 (p2).
std::int64_t level_of(std::int64_t stride);

}  // namespace detforge
