#pragma once

#include <vector>

#include "detforge/structures/box.h"
#include "detforge/structures/image.h"
#include "detforge/structures/segmentation.h"

namespace detforge {

/// The part of a polygon (x0 y0 x1 y1 ...) inside a window: Sutherland-Hodgman, one side of the
/// window after the other (CACM 17(1), 1974). Where the window cuts a polygon in several pieces
/// they stay one polygon, joined by edges along the border that cover no area. Empty if nothing
/// with an area is left; unchanged if nothing sticks out.
std::vector<double> clip_polygon(const std::vector<double>& xy, const Box& window);

/// The box around what polygons (even-odd rule, each for itself) show of an image of this size:
/// what Detectron2 gives for polygons that shapely has clipped. Edges along the border, such as
/// clip_polygon() leaves, do not widen it. All zeros if nothing is shown.
Box visible_box(const std::vector<std::vector<double>>& polygons, ImageSize size);

/// The same for a mask of either kind; an RLE's is rle_box().
Box visible_mask_box(const Segmentation& mask, ImageSize size);

}  // namespace detforge
