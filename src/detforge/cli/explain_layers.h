#pragma once

#include <vector>

#include "detforge/cli/recipe_layers.h"

namespace detforge {

/// Prints how DetForge's kernels compute each pass of each layer, and what decided it: every shape
/// once, below the first recipe that has it.
void explain_layers(const std::vector<RecipeLayers>& recipes);

}  // namespace detforge
