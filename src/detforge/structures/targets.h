#pragma once

#include <vector>

#include "detforge/core/tensor.h"
#include "detforge/structures/segmentation.h"

namespace detforge {

/// Ground truth of one image, crowd objects left out. G may be 0.
struct Targets {
  Tensor boxes;                          ///< [G,4] f32 xyxy in pixels of the network input
  Tensor labels;                         ///< [G] i64, 0..K-1
  std::vector<Segmentation> masks = {};  ///< G masks in pixels of the network input (an RLE has the
                                         ///< image's size without padding), or none if masks are
                                         ///< not loaded
};

}  // namespace detforge
