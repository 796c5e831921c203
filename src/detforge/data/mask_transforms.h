#pragma once

#include <cstdint>

#include "detforge/structures/segmentation.h"

namespace detforge {

// What happens to a bitmap, done on its run lengths in O(runs + width). Each function throws Error
// if the mask fails check_rle() or the new size is not positive.

/// Nearest neighbour, equal to Pillow's `Image.resize(size, NEAREST)` of the bitmap, which is what
/// Detectron2 does to masks (resize_nearest() in resize.h).
Rle resize_mask(RleView mask, ImageSize size);

/// Left becomes right.
Rle flip_mask_horizontal(RleView mask);
/// Top becomes bottom.
Rle flip_mask_vertical(RleView mask);

/// The window of this size whose top left pixel is (left, top) of the mask; either may be negative.
/// What lies outside the mask is not set.
Rle window_mask(RleView mask, std::int64_t left, std::int64_t top, ImageSize size);

/// The pixels of `mask` that `cover` does not hide. Both of one size.
Rle subtract_mask(RleView mask, RleView cover);

}  // namespace detforge
