#pragma once

#include <cstdint>

#include "detforge/structures/segmentation.h"

namespace detforge::cpu {

struct PasteMask {
  const float* grid;  ///< [side,side] probabilities over the box
  std::int64_t side;
  const float* box;  ///< x1, y1, x2, y2 in pixels
  ImageSize size;    ///< the image; fewer than 2^32 pixels
  float threshold;   ///< above 0
};

/// One mask of ops/paste_masks.h.
Rle paste_mask(const PasteMask& paste);

}  // namespace detforge::cpu
