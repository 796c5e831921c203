#pragma once

#include <cstdint>
#include <vector>

#include "detforge/data/resize.h"
#include "detforge/structures/sample.h"

namespace detforge {

// Changes of an image's geometry that everything of the sample follows as one record: pixels,
// boxes, polygons (in double precision) and RLE masks (whose size is the image's, always). Boxes
// may leave the image; filter_instances() clips them. original_size, ids, labels and areas stay.

/// Pixels as resize_image(), RLE masks as resize_mask(). Nothing happens if the size is that.
void resize_sample_(Sample& sample,
                    ImageSize size,
                    Interpolation interpolation = Interpolation::kPillow);

/// x' = width - x.
void flip_sample_horizontal_(Sample& sample);
/// y' = height - y.
void flip_sample_vertical_(Sample& sample);

/// Makes the image the window of this size whose top left pixel was (left, top); where the window
/// reaches over the image, pixels get the value `padding`. Masks are cut to the window, polygons by
/// clip_polygon(). A mask of which nothing is left becomes an RLE without a pixel, so that it is
/// known from an object that never had one.
void cut_sample_(Sample& sample, const Window& window, std::uint8_t padding = 0);

// The two halves of cut_sample_(), to put several pictures into one.

/// What becomes of the objects.
void cut_instances_(std::vector<Instance>& instances, const Window& window);
/// Copies what of `picture` fits into `image` when its top left pixel lies at (left, top).
void place_picture_(Image& image, const Image& picture, std::int64_t left, std::int64_t top);

/// An image of one grey value.
Image plain_image(ImageSize size, std::uint8_t value);

}  // namespace detforge
