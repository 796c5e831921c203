#pragma once

#include <string>
#include <vector>

#include <torch/nn/module.h>

#include "detforge/core/tensor.h"

namespace detforge {

/// Parameters below one child of a model; buffers (frozen norms) do not count.
struct ModuleSummary {
  std::string name;  ///< backbone, proposal_generator, roi_heads; "" for the total
  std::int64_t parameters = 0;
  std::int64_t trainable = 0;  ///< of these, with gradient
};

/// One entry per direct child in order of registration, then the total.
std::vector<ModuleSummary> summarize_parameters(const torch::nn::Module& model);

}  // namespace detforge
