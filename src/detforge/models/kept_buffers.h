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

/// The same, put back at the end of a scope.
class ScopedBuffers {
 public:
  explicit ScopedBuffers(const torch::nn::Module& module) : kept_(module) {}
  ~ScopedBuffers() { kept_.restore(); }
  ScopedBuffers(const ScopedBuffers&) = delete;
  ScopedBuffers& operator=(const ScopedBuffers&) = delete;

 private:
  KeptBuffers kept_;
};

}  // namespace detforge
