#pragma once

#include <opencv2/core.hpp>

#include "detforge/structures/image.h"
#include "detforge/vis/colours.h"

namespace detforge::vis {

/// OpenCV's view of an image; borrows its pixels.
inline cv::Mat view(Image& image) {
  return {static_cast<int>(image.height), static_cast<int>(image.width), CV_8UC3, image.bgr.data()};
}

inline cv::Scalar scalar(const Colour& colour) {
  return {static_cast<double>(colour[0]), static_cast<double>(colour[1]),
          static_cast<double>(colour[2])};
}

/// Letters and lines in proportion to the picture.
struct Style {
  double text_height;  ///< of capital letters, in pixels
  int line_width;
};
Style style_for(ImageSize size);

}  // namespace detforge::vis
