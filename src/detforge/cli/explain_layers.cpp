#include "detforge/cli/explain_layers.h"

#include <algorithm>
#include <string>

#include <fmt/format.h>
#include <torch/types.h>

#include "detforge/cli/layer_bench.h"
#include "detforge/core/error.h"
#include "detforge/ops/conv2d_function.h"
#include "detforge/ops/kernel_backend.h"

namespace detforge {
namespace {

struct Explanation {
  std::string forward, backward_data, backward_weight, reason;
};

/// Only its sizes are looked at.
Tensor without_values(const std::array<std::int64_t, 4>& sizes) {
  return torch::empty(sizes, at::device(at::kMeta));
}

Explanation explain_conv(const LayerShape& shape) {
  const cpu::ConvShape conv =
      conv_shape(without_values(shape.input), without_values(shape.weight), conv_options(shape));
  const cpu::ConvPlan plan = cpu::plan_conv(conv);
  return {conv_algorithm_name(plan.forward), conv_algorithm_name(plan.backward_data),
          conv_algorithm_name(plan.backward_weight), cpu::explain_plan(conv)};
}

/// Its forward is the input's gradient of the convolution that it is the adjoint of.
Explanation explain_transposed(const LayerShape& shape) {
  const cpu::ConvShape conv = transposed_conv_shape(
      without_values(shape.input), without_values(shape.weight), conv_options(shape));
  const cpu::ConvPlan plan = cpu::plan_conv(conv);
  return {conv_algorithm_name(plan.backward_data), conv_algorithm_name(plan.forward),
          conv_algorithm_name(plan.backward_weight),
          "adjoint of a convolution: " + cpu::explain_plan(conv)};
}

Explanation explain(const LayerShape& shape) {
  switch (shape.kind) {
    case LayerKind::kConv:
    case LayerKind::kLinear:  // a 1x1 convolution of single pixels
      return explain_conv(shape);
    case LayerKind::kConvTranspose:
      return explain_transposed(shape);
    case LayerKind::kConvAtChannel:
      return {"dot", "dot", "dot", "one channel of each image alone: a dot product for each pixel"};
  }
  throw Error("unknown kind of layer", "report this");
}

}  // namespace

void explain_layers(const std::vector<RecipeLayers>& recipes) {
  if (kernel_backend() == KernelBackend::kAten) {
    fmt::print("DETFORGE_KERNELS=aten: LibTorch computes everything; without it:\n");
  }
  std::vector<LayerShape> explained;
  for (const RecipeLayers& recipe : recipes) {
    fmt::print("\n{}: {} image(s) of {}x{}\n{:<42} {:<10} {:<14} {:<17} {}\n", recipe.name,
               recipe.batch, recipe.size.height, recipe.size.width, "layer", "forward",
               "backward data", "backward weights", "why");
    for (const LayerCount& layer : recipe.layers) {
      if (std::find(explained.begin(), explained.end(), layer.shape) != explained.end()) {
        continue;
      }
      explained.push_back(layer.shape);
      const Explanation text = explain(layer.shape);
      fmt::print("{:<42} {:<10} {:<14} {:<17} {}\n", layer_name(layer.shape), text.forward,
                 text.backward_data, text.backward_weight, text.reason);
    }
  }
}

}  // namespace detforge
