#pragma once

#include <vector>

#include "detforge/core/tensor.h"
#include "detforge/structures/segmentation.h"

namespace detforge {

/// Pastes masks that were predicted on a grid over their boxes into an image, as run lengths.
///   masks   [D,M,M] f32: probability of the object, bilinearly interpolated between the centres of
///           the grid's cells, 0 outside the grid
///   boxes   [D,4] f32 xyxy in pixels of the image; may reach beyond it
///   size    the image
///   return  D masks of `size`: a pixel is set if the probability at its centre is >= `threshold`
/// Pixels further than one pixel from the box are never set. A box that is empty or not finite
/// gives an empty mask, a pixel whose probability is NaN is not set. Never more memory than the
/// runs and one box's rows: 300 masks of 12,000 x 9,000 pixels need some tens of megabytes.
/// Multi-threaded over masks, the same result for any number of threads. No gradient. Throws Error
/// if shapes or dtypes do not fit, `size` is not positive or has 2^32 pixels or more, or
/// `threshold` is not positive. Ref: Detectron2's paste_masks_in_image (one mask at a time, as on
/// the CPU), equal in every pixel whose probability is not within rounding of the threshold.
std::vector<Rle> paste_masks(const Tensor& masks,
                             const Tensor& boxes,
                             ImageSize size,
                             double threshold = 0.5);

}  // namespace detforge
