#pragma once

#include <cstdint>
#include <vector>

#include "detforge/core/tensor.h"

namespace detforge::test {

/// Uniform in [-1, 1), f32, the same for the same seed everywhere.
Tensor random_tensor(const std::vector<std::int64_t>& shape, std::uint64_t seed);

/// Boxes [count,4] f32 xyxy inside [0, extent]^2, sides of at least 1 pixel.
Tensor random_boxes(std::int64_t count, double extent, std::uint64_t seed);

}  // namespace detforge::test
