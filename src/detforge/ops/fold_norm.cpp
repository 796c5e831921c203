#include "detforge/ops/fold_norm.h"

#include <string>
#include <vector>

#include <torch/types.h>

#include "detforge/core/error.h"

namespace detforge {

FoldedConv fold_frozen_norm(const Tensor& weight, const Tensor& bias, const FrozenNorm& norm) {
  for (const Tensor* tensor : {&norm.gamma, &norm.beta, &norm.running_mean, &norm.running_var}) {
    DETFORGE_CHECK(tensor->dim() == 1 && tensor->size(0) == weight.size(0),
                   "a norm of " + std::to_string(tensor->numel()) +
                       " channels follows a convolution of " + std::to_string(weight.size(0)),
                   "check that the weights belong to this architecture");
  }
  const Tensor scale = norm.gamma * (norm.running_var + norm.eps).rsqrt();
  const Tensor mean = bias.defined() ? norm.running_mean - bias : norm.running_mean;
  std::vector<std::int64_t> per_channel(static_cast<std::size_t>(weight.dim()), 1);
  per_channel[0] = weight.size(0);
  return {weight * scale.view(per_channel), norm.beta - mean * scale};
}

}  // namespace detforge
