#pragma once

#include <cstdint>
#include <vector>

#include "detforge/core/tensor.h"
#include "detforge/models/darknet/darknet_cfg.h"

namespace detforge {

/// The layers of Darknet that are not made of convolutions; all [N,C,H,W] f32, with gradient.

/// Ref: Darknet's forward_maxpool_layer.
Tensor darknet_maxpool(const Tensor& input, const MaxpoolSpec& spec);

/// Each value is 0 with the probability, else divided by 1 - probability. Which ones is a function
/// of keys[n], `layer` and the place in image n alone: any batch, any number of threads.
Tensor darknet_dropout(const Tensor& input,
                       double probability,
                       const std::vector<std::uint64_t>& keys,
                       std::size_t layer);

/// In place where it can be: safe on a fresh result that no backward reads.
Tensor darknet_activate_(Tensor output, DarknetActivation activation);

}  // namespace detforge
