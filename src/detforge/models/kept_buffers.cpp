#include "detforge/models/kept_buffers.h"

#include <torch/types.h>

namespace detforge {

KeptBuffers::KeptBuffers(const torch::nn::Module& module) : buffers_(module.buffers()) {
  for (const Tensor& buffer : buffers_) {
    copies_.push_back(buffer.clone());
  }
}

void KeptBuffers::restore() const {
  const torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < copies_.size(); ++i) {
    Tensor buffer = buffers_[i];
    buffer.copy_(copies_[i]);
  }
}

}  // namespace detforge
