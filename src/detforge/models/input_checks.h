#pragma once

#include <vector>

#include "detforge/structures/image_batch.h"
#include "detforge/structures/targets.h"

namespace detforge {

/// Throws Error unless the batch is [N,3,H,W] with one size per image, H and W multiples of
/// `multiple`.
void check_images(const ImageBatch& images, std::int64_t multiple);

/// Throws Error, naming the image, unless each has its targets: one class of 0..num_classes-1 per
/// box.
void check_targets(const ImageBatch& images,
                   const std::vector<Targets>& targets,
                   std::int64_t num_classes);

}  // namespace detforge
