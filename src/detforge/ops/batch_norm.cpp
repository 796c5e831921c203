#include "detforge/ops/batch_norm.h"

#include <algorithm>

#include <ATen/record_function.h>
#include <torch/types.h>

#include "detforge/ops/group_norm.h"
#include "detforge/ops/in_f32.h"
#include "detforge/ops/layout.h"
#include "detforge/ops/map_type.h"

namespace detforge {
namespace {

/// A channels-last batch [N,C,H,W] as one image [1,C,N*H,W] over the same memory.
Tensor as_one_image(const Tensor& map) {
  return map.permute({0, 2, 3, 1})
      .reshape({1, map.size(0) * map.size(2), map.size(3), map.size(1)})
      .permute({0, 3, 1, 2});
}

/// One pixel has no unbiased variance; its biased one, 0, is taken.
void update_running(const Tensor& running_mean,
                    const Tensor& running_var,
                    const GroupMoments& moments,
                    std::int64_t pixels,
                    const BatchNormOptions& o) {
  const torch::NoGradGuard no_grad;
  const Tensor variance = (moments.inverse_std.square().reciprocal() - o.eps).clamp_min(0);
  const double unbiased =
      static_cast<double>(pixels) / static_cast<double>(std::max<std::int64_t>(pixels - 1, 1));
  running_mean.mul_(1 - o.momentum).add_(moments.mean, o.momentum);
  running_var.mul_(1 - o.momentum).add_(variance, o.momentum * unbiased);
}

}  // namespace

Tensor batch_norm(const Tensor& input,
                  const Tensor& weight,
                  const Tensor& bias,
                  const Tensor& running_mean,
                  const Tensor& running_var,
                  const BatchNormOptions& o,
                  const Tensor& residual) {
  RECORD_FUNCTION("detforge::batch_norm", {});
  if (is_own_map(input)) {
    const Tensor image = as_one_image(input);
    if (is_channels_last(image)) {
      // Over all pixels of the batch, each channel is a group of its own.
      GroupMoments moments;
      const Tensor output = group_norm_with_moments(
          image, weight, bias,
          {.groups = input.size(1),
           .eps = o.eps,
           .activation = o.activation,
           .leaky_slope = o.leaky_slope},
          residual.defined() ? as_one_image(residual.contiguous(at::MemoryFormat::ChannelsLast))
                             : residual,
          moments);
      update_running(running_mean, running_var, moments, input.numel() / input.size(1), o);
      return output.permute({0, 2, 3, 1})
          .reshape({input.size(0), input.size(2), input.size(3), input.size(1)})
          .permute({0, 3, 1, 2});
    }
  }
  if (is_half_type(input.scalar_type())) {
    return in_f32("batch_norm", input, [&](const Tensor& map) {
      return batch_norm(map, weight, bias, running_mean, running_var, o, widen(residual));
    });
  }
  const Tensor output =
      at::batch_norm(input, widen(weight), widen(bias), running_mean, running_var,
                     /*training=*/true, o.momentum, o.eps, /*cudnn_enabled=*/true);
  return add_and_activate_(output, residual, o.activation, o.leaky_slope);
}

}  // namespace detforge
