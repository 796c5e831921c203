#pragma once

#include <functional>
#include <vector>

#include "detforge/core/tensor.h"

namespace detforge {

/// part(input), of which backward keeps the input alone: when its turn comes it runs `part` a
/// second time, with the generator's state of the first, and then through it. One part's
/// activations at a time instead of all of them, for one more forward. Values and gradients are bit
/// for bit those of part(input). Without gradients it is part(input).
///   parameters: every tensor besides the input that `part` uses and that gets a gradient
/// `part` must live until backward, and must not do twice what belongs to one step: see
/// is_recomputing(). Ref: Chen et al., arXiv:1604.06174.
Tensor checkpoint_activations(std::function<Tensor(const Tensor&)> part,
                              const Tensor& input,
                              const std::vector<Tensor>& parameters);

/// True on this thread while a part runs its second time: statistics of batch norms are not updated
/// again.
bool is_recomputing();

}  // namespace detforge
