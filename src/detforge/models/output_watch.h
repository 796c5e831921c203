#pragma once

#include <functional>

#include <torch/nn/module.h>

#include "detforge/core/tensor.h"

namespace detforge {

/// Shows what every layer of a network gives, in the order of computation, to a function: on this
/// thread, while it lives. Nests: the innermost one sees.
///   const OutputWatch watch([](const torch::nn::Module& layer, const Tensor& output) { ... });
class OutputWatch {
 public:
  using See = std::function<void(const torch::nn::Module& layer, const Tensor& output)>;

  explicit OutputWatch(See see);
  ~OutputWatch();
  OutputWatch(const OutputWatch&) = delete;
  OutputWatch& operator=(const OutputWatch&) = delete;

 private:
  friend void watch_output(const torch::nn::Module&, const Tensor&);
  See see_;
  OutputWatch* before_;
};

/// Called by each layer with what it gives.
void watch_output(const torch::nn::Module& layer, const Tensor& output);

}  // namespace detforge
