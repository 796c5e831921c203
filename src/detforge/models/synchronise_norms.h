#pragma once

#include "detforge/distributed/communicator.h"
#include "detforge/models/detector.h"

namespace detforge {

/// From now on the detector's norms of type kSyncBn take their statistics from the images of all
/// ranks, over a channel of their own. Nothing with one rank or without such norms. All ranks must
/// call it. True if there are such norms: then ranks talk within forward and backward passes.
bool synchronise_norms(Detector& detector, Communicator& communicator);

}  // namespace detforge
