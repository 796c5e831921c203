#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "detforge/structures/batch.h"
#include "detforge/structures/sample.h"

namespace detforge {

struct CollateOptions {
  std::array<double, 3> pixel_mean = {103.53, 116.28,
                                      123.675};  ///< MODEL.PIXEL_MEAN, in the order of the channels
  std::array<double, 3> pixel_std = {1, 1, 1};   ///< MODEL.PIXEL_STD
  bool rgb = false;                     ///< INPUT.FORMAT RGB: channels R, G, B; else B, G, R
  std::int64_t size_divisibility = 32;  ///< height and width are padded to a multiple
  bool masks = false;                   ///< MODEL.MASK_ON: targets carry masks
};

/// Makes the network input of samples: images normalised and zero-padded at the right and bottom to
/// the largest height and width, and up to the divisibility; f32 [N,3,H,W], contiguous NCHW.
/// Targets hold the objects that are no crowds, in order; with masks, mask k is that of box k, and
/// is empty() for an object that has none: it serves for its box, and loss_mask leaves it out. N
/// must be 1 or more; an image may have no objects.
Batch collate(const std::vector<Sample>& samples, const CollateOptions& options);

}  // namespace detforge
