#pragma once

#include <vector>

#include <torch/nn/module.h>

#include "detforge/core/tensor.h"

namespace detforge {

/// The buffers of a module (the running statistics of its norms) as they are now, to be put back.
class KeptBuffers {
 public:
  explicit KeptBuffers(const torch::nn::Module& module);
  void restore() const;

 private:
  std::vector<Tensor> buffers_, copies_;
};

}  // namespace detforge
