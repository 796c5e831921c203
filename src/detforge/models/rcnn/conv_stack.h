#pragma once

#include <string>
#include <vector>

#include "detforge/models/blocks.h"

namespace detforge {

struct ConvStackOptions {
  std::int64_t num_conv = 0;
  std::int64_t conv_dim = 256;
  NormType norm = NormType::kNone;
};

/// The 3x3 convolutions with ReLU that ROI heads begin with: registers NAME1, NAME2, ... in `owner`
/// and returns them in order. `channels` of the input.
std::vector<ConvLayer> register_conv_stack(torch::nn::Module& owner,
                                           const std::string& name,
                                           const ConvStackOptions& options,
                                           std::int64_t channels);

}  // namespace detforge
