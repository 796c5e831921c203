#pragma once

#include <span>
#include <string_view>

#include "detforge/structures/box.h"
#include "detforge/structures/sample.h"

namespace detforge {

/// Decodes COCO's compressed RLE text (pycocotools' "counts" string): six bits per character from
/// '0' (48), five of payload and one "more follows", low group first, sign-extended; from the third
/// run on each value is the difference to the run two before. Does not check the sum against the
/// size: see check_rle(). Throws Error (without a place) for a character outside 48..111, a value
/// that does not end, a negative run, or a run above 2^32-1.
std::vector<std::uint32_t> decode_rle_counts(std::string_view text);

/// Throws Error unless the size is positive and the runs sum to exactly height * width.
void check_rle(std::span<const std::uint32_t> counts, ImageSize size);

/// Number of pixels set.
std::int64_t rle_area(std::span<const std::uint32_t> counts);

/// The tight box of the set pixels in continuous coordinates: first column and row to last + 1. An
/// empty mask gives a box of zeros. `height` is the mask's.
Box rle_box(std::span<const std::uint32_t> counts, std::int64_t height);

/// Area of a polygon x0 y0 x1 y1 ... by the shoelace formula, never negative. Not pixel counting:
/// differs from pycocotools' rasterised area by at most about half the outline's length.
double polygon_area(std::span<const double> xy);

/// The box around the points. At least one point is needed.
Box polygon_box(std::span<const double> xy);

}  // namespace detforge
