#pragma once

#include <vector>

#include "detforge/core/tensor.h"
#include "detforge/structures/segmentation.h"

namespace detforge {

/// What the mask head should predict in R boxes: the object of each box, cut to the box, on an M x
/// M grid.
///   masks       G objects, in the pixels of the boxes (e.g. of the network input)
///   boxes       [R,4] f32 xyxy
///   gt_index    [R] i64, 0..G-1: the object of each box
///   resolution  M
///   return      [R,M,M] f32, 0 or 1; no gradient. R = 0 gives an empty tensor.
/// Polygons are moved and scaled to the grid and drawn there as pycocotools does; equal to
/// Detectron2's rasterize_polygons_within_box bit for bit. An RLE is the bitmap averaged over the
/// cells by aligned ROIAlign with adaptive sampling, >= 0.5; equal to BitMasks.crop_and_resize.
/// Only the part of it below the box is decoded. An empty segmentation gives zeros. Multi-threaded
/// over boxes, the same result for any number of threads. Throws Error if shapes or dtypes do not
/// fit, an index is out of range, a box or a point is not finite, or an RLE does not fill its size.
Tensor mask_targets(const std::vector<Segmentation>& masks,
                    const Tensor& boxes,
                    const Tensor& gt_index,
                    std::int64_t resolution);

}  // namespace detforge
