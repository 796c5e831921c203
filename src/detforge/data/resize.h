#pragma once

#include <cstdint>
#include <vector>

#include "detforge/structures/image.h"

namespace detforge {

/// Whose bilinear filter makes an image of another size.
enum class Interpolation {
  kPillow,  ///< resize_bilinear(): looks at all pixels when it shrinks; Detectron2
  kOpenCv,  ///< resize_bilinear_opencv(): looks at two by two pixels; mmdetection, Darknet's forks
};

/// The image in another size. Throws Error if a size is not positive.
Image resize_image(const Image& image, ImageSize size, Interpolation interpolation);

/// Bilinear resampling equal to Pillow's `Image.resize(size, BILINEAR)` bit for bit: a triangle
/// filter that widens when it shrinks (antialiasing), horizontal pass then vertical, 22-bit
/// fixed-point weights, rounding to 8 bits after each pass. An unchanged axis is not filtered. Any
/// positive sizes. Throws Error if a size is not positive.
Image resize_bilinear(const Image& image, ImageSize size);

/// Bilinear resampling equal to OpenCV 4.6's `cv::resize(..., INTER_LINEAR)` of 8-bit images bit
/// for bit: between the two nearest pixels of each direction whatever the scale, 11-bit fixed-point
/// weights; to exactly half the size in both directions, the mean of two by two pixels. Throws
/// Error if a size is not positive. Ref: OpenCV 4.6, modules/imgproc/src/resize.cpp.
Image resize_bilinear_opencv(const Image& image, ImageSize size);

/// One plane of bytes, for label maps and masks.
struct LabelMap {
  std::int64_t height = 0, width = 0;
  std::vector<std::uint8_t> values;  ///< height * width, row-major
};

/// Nearest neighbour, equal to Pillow's `Image.resize(size, NEAREST)`. Throws Error if a size is
/// not positive.
LabelMap resize_nearest(const LabelMap& map, ImageSize size);

/// The index 0..in-1 of the pixel that each of `out` pixels along an axis shows under
/// resize_nearest(): rising. Both lengths positive.
std::vector<std::int64_t> nearest_sources(std::int64_t in, std::int64_t out);

/// Detectron2's ResizeShortestEdge.get_output_shape: the shorter edge becomes `short_edge`, unless
/// the longer one would exceed `max_size`; then that becomes `max_size`. Aspect ratio kept, halves
/// rounded up. Never below 1 pixel, where Detectron2 gives 0 for a strip of 1 x 5000 pixels.
ImageSize shortest_edge_size(ImageSize size, std::int64_t short_edge, std::int64_t max_size);

namespace resize_detail {
/// The same result without SIMD instructions: for other processors, and for the test that compares
/// both.
Image resize_bilinear_portable(const Image& image, ImageSize size);
}  // namespace resize_detail

}  // namespace detforge
