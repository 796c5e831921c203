#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include <torch/nn/module.h>

#include "detforge/structures/image_batch.h"
#include "detforge/structures/targets.h"
#include "support/npz.h"
#include "support/test_data.h"

namespace detforge::test {

/// What the parity cases of all models share.

/// Fills the model with the case's weights (weights.npz, or the README's formula). Throws Error if
/// names differ.
void load_case_weights(const ParityCase& parity_case, torch::nn::Module& model);

/// inputs.npz as the network sees it: each image [3,H,W] f32 (BGR, 0..255) after `normalise`,
/// padded with 0 to multiples of 32.
ImageBatch case_images(const Npz& inputs, const std::function<Tensor(const Tensor&)>& normalise);
std::vector<Targets> case_targets(const Npz& inputs);

/// Every parameter and buffer of a model by its state dict name.
std::map<std::string, Tensor> state_of(const torch::nn::Module& model);

/// The values that the formula of shared/parity/README.md gives the state dict entry `name`.
Tensor formula_values(
    const std::string& name, std::uint64_t seed, double low, double high, at::IntArrayRef shape);

}  // namespace detforge::test
