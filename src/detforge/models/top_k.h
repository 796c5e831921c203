#pragma once

#include <cstdint>

#include "detforge/core/tensor.h"

namespace detforge {

/// Indices of the `k` highest of scores [R] f32, falling; ties in index order, NaN first. All if R
/// <= k.
Tensor top_k_indices(const Tensor& scores, std::int64_t k);

}  // namespace detforge
