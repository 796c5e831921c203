#pragma once

#include <string>
#include <vector>

#include "detforge/cli/arguments.h"
#include "detforge/config/config.h"

namespace detforge {

/// The config of the run folder arguments.resume, with what the command line changes (a recipe,
/// overrides,
/// --data). Changes are logged. Throws Error (usage) for changes that a run cannot take without
/// becoming another run: the model, the training data, the batch size, the seed.
Config load_resumed_config(const TrainArguments& arguments);

/// The command line of a run like that of `arguments`, started again after `run` was interrupted,
/// with one restart less; an empty `run`: from the beginning.
std::vector<std::string> restart_words(const TrainArguments& arguments, const std::string& run);

}  // namespace detforge
