#pragma once

#include "detforge/cli/arguments.h"
#include "detforge/config/config.h"
#include "detforge/data/dataset.h"
#include "detforge/distributed/communicator.h"
#include "detforge/train/loop.h"

namespace detforge {

/// A training run as one rank, or as all there is: everything is built here, and handed to the
/// loop. Rank 0 alone writes. `is_supervised`: a launcher watches over this process.
LoopResult train_run(const TrainArguments& arguments,
                     const Config& recipe,
                     Communicator& communicator,
                     const CocoDataset& dataset,
                     bool is_supervised);

}  // namespace detforge
