#pragma once

#include <cstdint>

#include "detforge/structures/box.h"
#include "detforge/structures/segmentation.h"

namespace detforge {

/// Number of pixels set in both masks, by one walk over the runs of both. The masks must have the
/// same size (not checked). Runs may have length 0.
std::int64_t rle_intersection(RleView a, RleView b);

/// What comparing a mask with many others needs to be known once.
struct MaskExtent {
  std::int64_t area = 0;  ///< pixels set
  Box box;                ///< tight, see rle_box()
};

MaskExtent mask_extent(RleView mask);

/// Intersection over union of two masks; over the detection's own area if the object is a crowd; 0
/// if they have no pixel in common, also when both are empty. Masks whose boxes do not meet are not
/// walked over. Equal to pycocotools' iou() to the last bit, but for masks of different size: an
/// Error here, -1 there.
double rle_iou(RleView detection, RleView object, bool object_is_crowd);

/// The same with the extents at hand, for comparing many with many.
double rle_iou(RleView detection,
               const MaskExtent& detection_extent,
               RleView object,
               const MaskExtent& object_extent,
               bool object_is_crowd);

}  // namespace detforge
