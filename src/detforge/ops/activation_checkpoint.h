#pragma once

#include <functional>
#include <vector>

#include "detforge/core/tensor.h"

namespace detforge {

/// part(input), of which backward keeps the input alone: when its turn comes it runs `part` a
/// second time, with the generator's state of the first, and then through it. One part's
/// activations at a time instead of all of them, for one more forward. The same values and
/// gradients as part(input); only where three gradients of the input meet may they be added in
/// another order. Without gradients it is part(input). No second derivative: an Error.
///   parameters: every tensor besides the input that `part` uses and that gets a gradient
/// Until backward `part` must live, and its buffers and its mode must stay as they are. It must not
/// do twice what belongs to one step: see is_recomputing(). Ref: Chen et al., arXiv:1604.06174.
Tensor checkpoint_activations(std::function<Tensor(const Tensor&)> part,
                              const Tensor& input,
                              const std::vector<Tensor>& parameters);

/// True on this thread while a part runs its second time: statistics of batch norms are not updated
/// again.
bool is_recomputing();

}  // namespace detforge
