#pragma once

#include <string>

#include <torch/nn/module.h>

#include "detforge/serialize/value.h"
#include "detforge/train/optimizer.h"

namespace detforge {

/// Every parameter and buffer by its full name, in the order of the module tree; shares storage, no
/// gradient.
NamedTensors model_state(const torch::nn::Module& model);

/// The same as a dict for a file, Detectron2's and torch's state_dict.
Value model_state_value(const torch::nn::Module& model);
Value to_value(const NamedTensors& tensors);
NamedTensors to_named_tensors(const Item& dict);

/// Copies a dict made by model_state_value() into the model. Error as for copy_by_name().
void load_model_state(torch::nn::Module& model, const Item& dict);

/// Copies each tensor of `from` into the one of its name. Throws Error naming what is missing,
/// unexpected or of another shape; nothing is copied then.
void copy_by_name(const NamedTensors& from, const NamedTensors& to);

/// True if every element is finite; one pass, without a tensor of flags.
bool is_finite(const Tensor& tensor);

/// The name of the first tensor with an element that is not finite, or empty.
std::string first_nonfinite(const NamedTensors& tensors);

/// Of all elements.
std::int64_t total_bytes(const NamedTensors& tensors);

}  // namespace detforge
