#include "detforge/train/find_nonfinite.h"

#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <torch/types.h>

#include "detforge/core/error.h"
#include "detforge/models/kept_buffers.h"
#include "detforge/models/output_watch.h"
#include "detforge/ops/map_type.h"

namespace detforge {
namespace {

/// The largest |x|; NaN or infinity if there is one.
double largest(const Tensor& tensor) {
  if (tensor.numel() == 0) {
    return 0;
  }
  const Tensor values = widen(tensor.detach()).abs();
  return values.isnan().any().item<bool>() ? std::numeric_limits<double>::quiet_NaN()
                                           : values.max().item<double>();
}

std::string name_of(const torch::nn::Module& root, const torch::nn::Module& module) {
  for (const auto& item : root.named_modules(/*name_prefix=*/"", /*include_self=*/false)) {
    if (item.value().get() == &module) {
      return item.key();
    }
  }
  return module.name();
}

std::string weights_text(const torch::nn::Module& layer) {
  double most = 0;
  for (const auto& item : layer.named_parameters()) {
    const double value = largest(item.value());
    if (!std::isfinite(value)) {
      return fmt::format("its {} has a {}", item.key(), std::isnan(value) ? "NaN" : "infinity");
    }
    most = std::max(most, value);
  }
  return fmt::format("its weights are finite, up to {:.3g}", most);
}

}  // namespace

std::string first_nonfinite_output(Detector& detector, const Batch& batch) {
  const torch::NoGradGuard no_grad;
  const ScopedBuffers kept(detector);
  std::string found;
  double before = largest(batch.images.images);
  {
    const OutputWatch watch([&](const torch::nn::Module& layer, const Tensor& output) {
      if (!found.empty()) {
        return;
      }
      const double value = largest(output);
      if (!std::isfinite(value)) {
        found = fmt::format("{} gives {} ({}; the layer before it gave values up to {:.3g})",
                            name_of(detector, layer), std::isnan(value) ? "NaN" : "infinity",
                            weights_text(layer), before);
      }
      before = value;
    });
    try {
      detector.losses(batch.images, batch.targets);
    } catch (const Error&) {
      // What is computed from such values may be refused; what is looked for was seen before that.
    }
  }
  return found;
}

}  // namespace detforge
