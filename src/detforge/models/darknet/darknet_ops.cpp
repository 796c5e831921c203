#include "detforge/models/darknet/darknet_ops.h"

#include <limits>

#include <ATen/Parallel.h>
#include <torch/types.h>

#include "detforge/core/error.h"
#include "detforge/core/rng.h"
#include "detforge/ops/conv2d.h"
#include "detforge/ops/in_f32.h"
#include "detforge/ops/max_pool.h"

namespace detforge {
namespace {

constexpr double kLeakySlope = 0.1;

/// Pixels that the windows along one axis reach over its end.
std::int64_t padding_behind(std::int64_t in, const MaxpoolSpec& spec) {
  const std::int64_t windows = (in + spec.padding - spec.size) / spec.stride + 1;
  const std::int64_t end = (windows - 1) * spec.stride + spec.size - spec.padding / 2;
  return std::max<std::int64_t>(end - in, 0);
}

}  // namespace

Tensor darknet_maxpool(const Tensor& input, const MaxpoolSpec& spec) {
  const std::int64_t before = spec.padding / 2;
  const std::int64_t below = padding_behind(input.size(2), spec),
                     right = padding_behind(input.size(3), spec);
  // torch pads both sides alike, by half a window at most, and needs no copy for it.
  if (below <= before && right <= before && 2 * before <= spec.size && spec.padding == 2 * before) {
    return max_pool(input, {.kernel = spec.size, .stride = spec.stride, .padding = before});
  }
  const Tensor padded = at::constant_pad_nd(input, {before, right, before, below},
                                            -std::numeric_limits<float>::infinity());
  return max_pool(padded, {.kernel = spec.size, .stride = spec.stride});
}

Tensor darknet_dropout(const Tensor& input,
                       double probability,
                       const std::vector<std::uint64_t>& keys,
                       std::size_t layer) {
  DETFORGE_CHECK(static_cast<std::int64_t>(keys.size()) == input.size(0),
                 "dropout needs one random key per image", "give the batch its rng_keys");
  const Tensor factors = at::empty(input.sizes(), at::dtype(at::kFloat));
  auto* factor = factors.data_ptr<float>();
  const std::int64_t values = input.numel() / std::max<std::int64_t>(input.size(0), 1);
  const auto scale = static_cast<float>(1.0 / (1.0 - probability));
  at::parallel_for(0, input.size(0), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin; n < end; ++n) {
      Rng rng(keys[static_cast<std::size_t>(n)], RngPurpose::kDropout, layer);
      for (std::int64_t i = n * values; i < (n + 1) * values; ++i) {
        factor[i] = rng.uniform() < probability ? 0.0F : scale;
      }
    }
  });
  return in_f32("dropout", input,
                [&](const Tensor& map) { return map * factors.to(map.device()); });
}

Tensor darknet_activate_(Tensor output, DarknetActivation activation) {
  switch (activation) {
    case DarknetActivation::kLinear:
      return output;
    case DarknetActivation::kLeaky:
      return activate_(std::move(output), Activation::kLeakyRelu, kLeakySlope);
    case DarknetActivation::kRelu:
      return activate_(std::move(output), Activation::kRelu);
    case DarknetActivation::kMish:
      // Its backward reads the input: not in place.
      return in_f32("mish", output, [](const Tensor& map) { return at::mish(map); });
  }
  throw Error("unknown activation", "use one of enum DarknetActivation");
}

}  // namespace detforge
