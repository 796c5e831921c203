#pragma once

#include <vector>

#include "detforge/structures/image_batch.h"
#include "detforge/structures/targets.h"

namespace detforge {

/// What the loader hands to the training step.
struct Batch {
  ImageBatch images;
  std::vector<Targets> targets;  ///< one per image
};

}  // namespace detforge
