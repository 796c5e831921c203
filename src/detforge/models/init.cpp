#include "detforge/models/init.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string_view>

#include <ATen/Parallel.h>
#include <torch/types.h>

#include "detforge/core/error.h"
#include "detforge/core/files.h"
#include "detforge/core/rng.h"

namespace detforge {
namespace {

constexpr std::int64_t kBlock = 4096;  // elements per random stream; part of what a seed means

void uniform_block(float* out, std::int64_t count, double bound, Rng rng) {
  for (std::int64_t i = 0; i < count; ++i) {
    out[i] = static_cast<float>(rng.uniform(-bound, bound));
  }
}

// Box-Muller, both values of each pair.
void normal_block(float* out, std::int64_t count, double std, Rng rng) {
  for (std::int64_t i = 0; i < count; i += 2) {
    const double radius = std * std::sqrt(-2.0 * std::log(1.0 - rng.uniform()));
    const double angle = 2.0 * std::numbers::pi * rng.uniform();
    out[i] = static_cast<float>(radius * std::cos(angle));
    if (i + 1 < count) {
      out[i + 1] = static_cast<float>(radius * std::sin(angle));
    }
  }
}

double scale_of(const Tensor& weight, const WeightInit& init) {
  const double kernel_area = static_cast<double>(weight[0][0].numel());
  switch (init.kind) {
    case WeightInit::Kind::kXavier:
      return std::sqrt(3.0 / (static_cast<double>(weight.size(1)) * kernel_area));
    case WeightInit::Kind::kMsra:
      return std::sqrt(2.0 / ((1.0 + init.leaky_slope * init.leaky_slope) *
                              static_cast<double>(weight.size(0)) * kernel_area));
    case WeightInit::Kind::kNormal:
      return init.std;
  }
  throw Error("unknown weight initialisation", "use kXavier, kMsra or kNormal");
}

}  // namespace

void fill_weight_(Tensor weight, const WeightInit& init, std::uint64_t key) {
  DETFORGE_CHECK(weight.dim() >= 2 && weight.numel() > 0 && weight.scalar_type() == torch::kFloat,
                 "fill_weight_ needs a non-empty f32 weight with at least two dimensions",
                 "initialise biases and norms by value");
  const torch::NoGradGuard no_grad;
  const double scale = scale_of(weight, init);
  Tensor values = torch::empty(weight.sizes(), torch::kFloat);
  float* out = values.data_ptr<float>();
  const std::int64_t total = values.numel();
  const std::int64_t blocks = (total + kBlock - 1) / kBlock;
  at::parallel_for(0, blocks, 4, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t block = begin; block < end; ++block) {
      const std::int64_t first = block * kBlock;
      const std::int64_t count = std::min(kBlock, total - first);
      const Rng rng(mix64(key, static_cast<std::uint64_t>(block)));
      if (init.kind == WeightInit::Kind::kXavier) {
        uniform_block(out + first, count, scale, rng);
      } else {
        normal_block(out + first, count, scale, rng);
      }
    }
  });
  weight.copy_(values);
}

void initialize_weights(torch::nn::Module& root, std::uint64_t seed) {
  const auto initialize = [seed](const std::string& name, torch::nn::Module& module) {
    if (auto* layer = dynamic_cast<Initializable*>(&module)) {
      layer->initialize(
          mix64(mix64(seed, static_cast<std::uint64_t>(RngPurpose::kInit)), files::fnv1a64(name)));
    }
  };
  initialize("", root);
  for (const auto& item : root.named_modules(/*name_prefix=*/"", /*include_self=*/false)) {
    initialize(item.key(), *item.value());
  }
}

}  // namespace detforge
