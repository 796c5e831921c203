#pragma once

#include <ATen/core/Tensor.h>

namespace detforge {
using Tensor = at::Tensor;
}  // namespace detforge
