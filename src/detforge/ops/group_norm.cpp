#include "detforge/ops/group_norm.h"

#include <string>

#include <ATen/record_function.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/types.h>

#include "detforge/core/error.h"
#include "detforge/ops/cpu/group_norm_kernel.h"
#include "detforge/ops/in_f32.h"
#include "detforge/ops/map_type.h"

namespace detforge {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr auto kLast = at::MemoryFormat::ChannelsLast;

struct Call : torch::CustomClassHolder {
  cpu::GroupNormShape shape;
  cpu::GroupNormActivation activation;
  cpu::GroupNormStatistics statistics;
  bool has_residual = false;
};

cpu::GroupNormActivation kernel_activation(const GroupNormOptions& options) {
  return {.is_there = options.activation != Activation::kNone,
          .slope = options.activation == Activation::kLeakyRelu
                       ? static_cast<float>(options.leaky_slope)
                       : 0.0F};
}

/// Channels-last maps only.
class GroupNormFunction : public torch::autograd::Function<GroupNormFunction> {
 public:
  static Tensor forward(AutogradContext* ctx,
                        const Tensor& input,
                        const Tensor& weight,
                        const Tensor& bias,
                        at::TensorList residual,  // none or one: undefined tensors do not pass
                        const GroupNormOptions& options,
                        GroupMoments* moments) {
    auto call = c10::make_intrusive<Call>();
    call->shape = {.images = input.size(0),
                   .pixels = input.size(2) * input.size(3),
                   .channels = input.size(1),
                   .groups = options.groups,
                   .eps = static_cast<float>(options.eps)};
    call->activation = kernel_activation(options);
    call->has_residual = !residual.empty();
    const Tensor added = residual.empty() ? Tensor() : residual[0].contiguous(kLast);
    Tensor output = at::empty(input.sizes(), input.options(), kLast);
    call->statistics = cpu::group_norm_forward(call->shape, const_map(input),
                                               weight.data_ptr<float>(), bias.data_ptr<float>(),
                                               const_map(added), call->activation, map_of(output));
    if (moments != nullptr) {
      moments->mean = torch::tensor(call->statistics.mean);
      moments->inverse_std = torch::tensor(call->statistics.inverse_std);
    }
    ctx->save_for_backward({input, weight, call->activation.is_there ? output : Tensor()});
    ctx->saved_data["call"] = c10::IValue::make_capsule(call);
    return output;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto holder = ctx->saved_data["call"].toCapsule();
    const Call& call = static_cast<const Call&>(*holder);
    const variable_list saved = ctx->get_saved_variables();
    const Tensor &input = saved[0], &weight = saved[1], &output = saved[2];
    const Tensor grad_output = grads[0].contiguous(kLast);
    Tensor grad_input = at::empty(input.sizes(), input.options(), kLast);
    Tensor grad_weight = at::empty_like(weight), grad_bias = at::empty_like(weight);
    const bool is_masked = call.has_residual && call.activation.is_there;
    Tensor grad_residual = call.has_residual ? grad_output : Tensor();
    if (is_masked) {
      grad_residual = at::empty(input.sizes(), input.options(), kLast);
    }
    cpu::group_norm_backward(call.shape, const_map(input), const_map(output),
                             weight.data_ptr<float>(), call.statistics, call.activation,
                             const_map(grad_output),
                             {.x = map_of(grad_input),
                              .weight = grad_weight.data_ptr<float>(),
                              .bias = grad_bias.data_ptr<float>(),
                              .residual = is_masked ? map_of(grad_residual) : cpu::Map()});
    variable_list results{grad_input, grad_weight, grad_bias};
    if (call.has_residual) {
      results.push_back(grad_residual);
    }
    results.resize(results.size() + 2);  // of the options and the moments
    return results;
  }
};

void check(const Tensor& input,
           const Tensor& weight,
           const Tensor& bias,
           const GroupNormOptions& options,
           const Tensor& residual) {
  DETFORGE_CHECK(input.dim() == 4 && options.groups > 0 && input.size(1) % options.groups == 0,
                 "group norm of " + std::to_string(options.groups) +
                     " groups needs a map [N,C,H,W]"
                     " whose channels they divide",
                 "change the number of channels or use another NORM");
  DETFORGE_CHECK(weight.dim() == 1 && bias.dim() == 1 && weight.size(0) == input.size(1) &&
                     bias.size(0) == input.size(1),
                 "group norm needs one weight and one bias for each of " +
                     std::to_string(input.size(1)) + " channels",
                 "check that the layer was made for this map");
  DETFORGE_CHECK(!residual.defined() || (residual.sizes() == input.sizes() &&
                                         residual.scalar_type() == input.scalar_type()),
                 "the residual and the normalised map differ in shape or type",
                 "the shortcut must have the stride and channels of the block");
}

Tensor apply(const Tensor& input,
             const Tensor& weight,
             const Tensor& bias,
             const GroupNormOptions& options,
             const Tensor& residual,
             GroupMoments* moments) {
  const std::vector<Tensor> residuals(residual.defined() ? 1 : 0, residual);
  return GroupNormFunction::apply(input, widen(weight).contiguous(), widen(bias).contiguous(),
                                  at::TensorList(residuals), options, moments);
}

}  // namespace

Tensor group_norm(const Tensor& input,
                  const Tensor& weight,
                  const Tensor& bias,
                  const GroupNormOptions& options,
                  const Tensor& residual) {
  RECORD_FUNCTION("detforge::group_norm", {});
  check(input, weight, bias, options, residual);
  if (is_own_map(input)) {
    return apply(input, weight, bias, options, residual, nullptr);
  }
  if (is_half_type(input.scalar_type())) {
    return in_f32("group_norm", input, [&](const Tensor& map) {
      return group_norm(map, weight, bias, options, widen(residual));
    });
  }
  const Tensor output =
      at::group_norm(input, options.groups, widen(weight), widen(bias), options.eps);
  return add_and_activate_(output, residual, options.activation, options.leaky_slope);
}

Tensor group_norm_with_moments(const Tensor& input,
                               const Tensor& weight,
                               const Tensor& bias,
                               const GroupNormOptions& options,
                               const Tensor& residual,
                               GroupMoments& moments) {
  check(input, weight, bias, options, residual);
  DETFORGE_CHECK(is_own_map(input), "group_norm_with_moments needs a channels-last map on the CPU",
                 "use group_norm");
  return apply(input, weight, bias, options, residual, &moments);
}

}  // namespace detforge
