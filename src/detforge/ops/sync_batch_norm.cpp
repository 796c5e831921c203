#include "detforge/ops/sync_batch_norm.h"

#include <ATen/record_function.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/types.h>

#include "detforge/ops/map_type.h"

namespace detforge {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// [C] as [1,C,1,1].
Tensor by_channel(const Tensor& values) {
  return values.view({1, -1, 1, 1});
}

Tensor channel_sums(const Tensor& map) {
  return map.sum({0, 2, 3}, /*keepdim=*/false, at::kDouble);
}

struct Statistics {
  Tensor mean, inverse_std, variance;  ///< f32 [C], of all ranks
  double pixels;
};

Statistics statistics_of(const Tensor& map, double eps, const AllReduce& all_reduce) {
  const std::int64_t channels = map.size(1);
  const Tensor pixels = torch::full(
      {1}, static_cast<double>(map.numel()) / static_cast<double>(channels), at::kDouble);
  Tensor sums = torch::cat({channel_sums(map), channel_sums(map.to(at::kDouble).square()), pixels});
  all_reduce(sums);
  const double count = std::max(sums[2 * channels].item<double>(), 1.0);
  const Tensor mean = sums.slice(0, 0, channels) / count;
  const Tensor variance =
      (sums.slice(0, channels, 2 * channels) / count - mean.square()).clamp_min(0);
  return {.mean = mean.to(at::kFloat),
          .inverse_std = (variance + eps).rsqrt().to(at::kFloat),
          .variance = variance.to(at::kFloat),
          .pixels = count};
}

/// (input - mean) / std * weight + bias, f32 of any map type.
class SyncNorm : public torch::autograd::Function<SyncNorm> {
 public:
  static Tensor forward(AutogradContext* context,
                        const Tensor& input,
                        const Tensor& weight,
                        const Tensor& bias,
                        const Tensor& running_mean,
                        const Tensor& running_var,
                        double eps,
                        double momentum,
                        const AllReduce* all_reduce) {
    const Tensor map = widen(input);
    const Statistics s = statistics_of(map, eps, *all_reduce);
    const double unbiased = s.pixels / std::max(s.pixels - 1, 1.0);
    running_mean.mul_(1 - momentum).add_(s.mean, momentum);
    running_var.mul_(1 - momentum).add_(s.variance, momentum * unbiased);
    context->save_for_backward({input, weight, s.mean, s.inverse_std});
    context->saved_data["pixels"] = s.pixels;
    // Backward passes come before the model, which owns the function, goes.
    context->saved_data["all_reduce"] =
        static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(all_reduce));
    const Tensor normalised = (map - by_channel(s.mean)) * by_channel(s.inverse_std);
    return normalised * by_channel(widen(weight)) + by_channel(widen(bias));
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const Tensor& weight = saved[1];
    const Tensor inverse_std = by_channel(saved[3]);
    const double pixels = context->saved_data["pixels"].toDouble();
    const auto* all_reduce = reinterpret_cast<const AllReduce*>(
        static_cast<std::intptr_t>(context->saved_data["all_reduce"].toInt()));
    const Tensor& gradient = gradients[0];
    const Tensor normalised = (widen(saved[0]) - by_channel(saved[2])) * inverse_std;
    const Tensor bias_sums = channel_sums(gradient),
                 weight_sums = channel_sums(gradient * normalised);
    Tensor sums = torch::cat({bias_sums, weight_sums}) / pixels;
    (*all_reduce)(sums);
    sums = sums.to(at::kFloat);
    const std::int64_t channels = weight.numel();
    const Tensor of_input = (gradient - by_channel(sums.slice(0, 0, channels)) -
                             normalised * by_channel(sums.slice(0, channels))) *
                            inverse_std * by_channel(widen(weight));
    return {of_input.to(saved[0].scalar_type()),
            weight_sums.to(weight.scalar_type()),
            bias_sums.to(weight.scalar_type()),
            {},
            {},
            {},
            {},
            {}};
  }
};

}  // namespace

Tensor sync_batch_norm(const Tensor& input,
                       const Tensor& weight,
                       const Tensor& bias,
                       const Tensor& running_mean,
                       const Tensor& running_var,
                       const BatchNormOptions& o,
                       const AllReduce& all_reduce,
                       const Tensor& residual) {
  RECORD_FUNCTION("detforge::sync_batch_norm", {});
  Tensor output = SyncNorm::apply(input, weight, bias, running_mean, running_var, o.eps, o.momentum,
                                  &all_reduce);
  if (residual.defined()) {
    output = output + widen(residual);
  }
  if (o.activation == Activation::kRelu) {
    output = output.relu();
  } else if (o.activation == Activation::kLeakyRelu) {
    output = torch::leaky_relu(output, o.leaky_slope);
  }
  return output.to(input.scalar_type());
}

}  // namespace detforge
