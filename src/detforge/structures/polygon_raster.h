#pragma once

#include <span>
#include <vector>

#include "detforge/structures/segmentation.h"

namespace detforge {

/// The pixels of a polygon x0 y0 x1 y1 ..., equal to pycocotools' rleFrPoly bit for bit, also for
/// polygons that leave the image, cross themselves (even-odd rule) or have no area: points are
/// rounded to a grid of fifths of a pixel, edges are drawn on it, and a column's crossings are read
/// at its middle. An odd last number is ignored; fewer than two points set nothing.
///
/// Takes O(points * width) steps, whatever the coordinates: those beyond +-2e8 pixels are clamped,
/// and the equality holds up to +-10^6 (beyond about 4e8 pycocotools overflows). Throws Error for
/// NaN and infinity, and for sizes that are not positive or have 2^32 pixels or more.
Rle polygon_mask(std::span<const double> xy, ImageSize size);

/// The union of the parts of one object: pycocotools' merge(frPyObjects(parts)). No parts set
/// nothing.
Rle polygons_mask(const std::vector<std::vector<double>>& parts, ImageSize size);

/// An annotation's mask in an image of this size: its RLE as it is, or its polygons drawn. Without
/// either, nothing is set. Throws Error if an RLE is not of this size or fails check_rle().
Rle segmentation_mask(const Segmentation& segmentation, ImageSize size);

}  // namespace detforge
