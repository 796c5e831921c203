#pragma once

#include <cstdint>
#include <vector>

#include "detforge/core/rng.h"
#include "detforge/structures/image.h"

namespace detforge {

/// Square sizes of which one is chosen anew every few batches, the same for all images of a batch:
/// Darknet's random=1.
struct MultiScaleOptions {
  std::vector<std::int64_t> sizes = {320, 352, 384, 416, 448, 480, 512, 544, 576, 608};
  std::int64_t every_batches = 10;  ///< 0: every image chooses for itself
};

/// Which batch of a run an image is in; it decides what all images of the batch share.
struct BatchPlace {
  std::uint64_t seed = 0;  ///< of the run: the same on all ranks
  std::int64_t batch = 0;  ///< number of the rank's batch, from 0 (Draw::batch)
};

/// Throws Error unless there are sizes, all positive, and every_batches is 0 or more.
void check_multi_scale(const MultiScaleOptions& options);

/// The size of the batch: a function of seed and batch alone, so it is the same on all ranks, for
/// any number of threads and after a resume. With every_batches = 0 that of one image, from its own
/// generator; else `rng` is left alone.
ImageSize multi_scale_size(const MultiScaleOptions& options, const BatchPlace& place, Rng& rng);

}  // namespace detforge
