#pragma once

#include "detforge/core/tensor.h"

namespace detforge {

/// a + b of one shape and map type, rounded once. (LibTorch adds f16 maps value by value.)
/// Gradients for both.
Tensor add_maps(const Tensor& a, const Tensor& b);

}  // namespace detforge
