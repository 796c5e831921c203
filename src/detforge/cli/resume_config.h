#pragma once

#include "detforge/cli/arguments.h"
#include "detforge/config/config.h"

namespace detforge {

/// The config of the run folder arguments.resume, with what the command line changes (a recipe,
/// overrides,
/// --data). Changes are logged. Throws Error (usage) for changes that a run cannot take without
/// becoming another run: the model, the training data, the batch size, the seed.
Config load_resumed_config(const TrainArguments& arguments);

}  // namespace detforge
