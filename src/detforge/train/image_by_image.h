#pragma once

#include "detforge/train/optimizer.h"
#include "detforge/train/step.h"

namespace detforge {

/// Losses and gradients of a step whose bits do not depend on the number of ranks (a power of two):
/// each image is computed alone, padded to the largest image of the step, and gradients are added
/// in the order of one binary tree over the images (TreeSum, tree_all_reduce_). Memory: the
/// activations of the batch, and log2(images) + 2 sets of gradients. For
/// StepOptions::is_deterministic.
void image_by_image_gradients(Detector& detector,
                              Sgd& optimizer,
                              Communicator& communicator,
                              const Batch& batch,
                              const StepOptions& options,
                              StepResult& result);

}  // namespace detforge
