#include "detforge/ops/fold_norm.h"

#include <string>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/types.h>

#include "detforge/core/error.h"
#include "detforge/ops/cpu/conv_kernels.h"
#include "detforge/ops/kernel_backend.h"
#include "detforge/ops/map_type.h"

namespace detforge {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

Tensor scale_outputs(const Tensor& weight, const Tensor& scale) {
  std::vector<std::int64_t> per_output(static_cast<std::size_t>(weight.dim()), 1);
  per_output[0] = weight.size(0);
  return to_map_type(weight * scale.view(per_output), weight.scalar_type());
}

/// scale_outputs with both gradients in one pass over the weight, without the product of weight and
/// gradient that LibTorch's multiplication stores and then sums. There is no second derivative.
class ScaleOutputs : public torch::autograd::Function<ScaleOutputs> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& weight, const Tensor& scale) {
    ctx->save_for_backward({weight, scale});
    return scale_outputs(weight, scale);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    RECORD_FUNCTION("detforge::fold backward", {});
    const variable_list saved = ctx->get_saved_variables();
    const Tensor gradient = widen(grads[0]).contiguous();
    const Tensor weight = widen(saved[0]).contiguous();
    const Tensor scale = saved[1].contiguous();
    Tensor grad_weight = at::empty_like(weight), grad_scale = at::empty_like(scale);
    constexpr std::int64_t kGrain = 32768;  // values that are worth a thread
    const std::int64_t outputs = weight.size(0), count = outputs > 0 ? weight.numel() / outputs : 0;
    const float *g = gradient.data_ptr<float>(), *w = weight.data_ptr<float>(),
                *s = scale.data_ptr<float>();
    float *to = grad_weight.data_ptr<float>(), *sums = grad_scale.data_ptr<float>();
    at::parallel_for(0, outputs, kGrain / (count + 1) + 1,
                     [&](std::int64_t begin, std::int64_t end) {
                       for (std::int64_t o = begin; o < end; ++o) {
                         sums[o] = cpu::conv_kernels()->scale_gradient(g + o * count, w + o * count,
                                                                       count, s[o], to + o * count);
                       }
                     });
    return {to_map_type(grad_weight, saved[0].scalar_type()), grad_scale};
  }
};

/// With one gradient alone LibTorch's multiplication is one pass as well.
bool use_own_kernels(const Tensor& weight, const Tensor& scale) {
  return weight.requires_grad() && scale.requires_grad() &&
         kernel_backend() == KernelBackend::kOwn && cpu::conv_kernels() != nullptr &&
         has_own_conversions(weight);
}

}  // namespace

FoldedConv fold_frozen_norm(const Tensor& weight, const Tensor& bias, const FrozenNorm& norm) {
  for (const Tensor* tensor : {&norm.gamma, &norm.beta, &norm.running_mean, &norm.running_var}) {
    DETFORGE_CHECK(tensor->dim() == 1 && tensor->size(0) == weight.size(0),
                   "a norm of " + std::to_string(tensor->numel()) +
                       " channels follows a convolution of " + std::to_string(weight.size(0)),
                   "check that the weights belong to this architecture");
  }
  const Tensor scale = norm.gamma * (norm.running_var + norm.eps).rsqrt();
  const Tensor mean = bias.defined() ? norm.running_mean - bias : norm.running_mean;
  return {use_own_kernels(weight, scale) ? ScaleOutputs::apply(weight, scale)
                                         : scale_outputs(weight, scale),
          norm.beta - mean * scale};
}

}  // namespace detforge
