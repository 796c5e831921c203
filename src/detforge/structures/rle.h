#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "detforge/structures/box.h"
#include "detforge/structures/segmentation.h"

namespace detforge {

/// Decodes COCO's compressed RLE text (pycocotools' "counts" string): six bits per character from
/// '0' (48), five of payload and one "more follows", low group first, sign-extended; from the third
/// run on each value is the difference to the run two before. Does not check the sum against the
/// size: see check_rle(). Throws Error (without a place) for a character outside 48..111, a value
/// that does not end, a negative run, or a run above 2^32-1.
std::vector<std::uint32_t> decode_rle_counts(std::string_view text);

/// The same, appended to `counts`, for many masks in one vector. After an exception some of the
/// runs may be there.
void append_rle_counts(std::string_view text, std::vector<std::uint32_t>& counts);

/// The text of run lengths, character for character what pycocotools writes. Any runs.
std::string encode_rle_counts(std::span<const std::uint32_t> counts);

/// Throws Error unless the size is positive, has fewer than 2^32 pixels, and the runs sum to
/// exactly height * width.
void check_rle(std::span<const std::uint32_t> counts, ImageSize size);

/// The runs of a bitmap (height * width bytes, row by row, non-zero = set), in pycocotools' form:
/// see RleBuilder. Throws Error if the bitmap does not have that many bytes.
Rle encode_mask(std::span<const std::uint8_t> row_major, ImageSize size);

/// Writes the mask as 0 and 1 into height * width bytes, row by row. Throws Error, before writing,
/// if the mask fails check_rle() or the bitmap has another number of bytes: never writes outside.
void decode_mask(RleView mask, std::span<std::uint8_t> row_major);

/// Pixels that are in any of the masks, or in all of them (`intersect`); equal to pycocotools'
/// merge. At least one mask. Throws Error if one fails check_rle() or the sizes differ.
Rle merge_masks(std::span<const RleView> masks, bool intersect = false);

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
