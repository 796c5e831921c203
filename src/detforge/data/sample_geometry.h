#pragma once

#include <cstdint>

#include "detforge/structures/sample.h"

namespace detforge {

// Changes of an image's geometry that everything of the sample follows as one record: pixels,
// boxes, polygons (in double precision) and RLE masks (whose size is the image's, always). Boxes
// may leave the image; filter_instances() clips them. original_size, ids, labels and areas stay.

/// Pixels as resize_bilinear(), RLE masks as resize_mask(). Nothing happens if the size is that.
void resize_sample_(Sample& sample, ImageSize size);

/// x' = width - x.
void flip_sample_horizontal_(Sample& sample);
/// y' = height - y.
void flip_sample_vertical_(Sample& sample);

/// Makes the image the window of this size whose top left pixel was (left, top); where the window
/// reaches over the image, pixels get the value `padding`. Masks are cut to the window, polygons by
/// clip_polygon(). A mask of which nothing is left becomes an RLE without a pixel, so that it is
/// known from an object that never had one.
struct Window {
  std::int64_t left = 0, top = 0;
  ImageSize size;
};
void cut_sample_(Sample& sample, const Window& window, std::uint8_t padding = 0);

}  // namespace detforge
