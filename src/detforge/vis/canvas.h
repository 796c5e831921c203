#pragma once

#include <string>

#include <opencv2/core.hpp>

#include "detforge/structures/image.h"

namespace detforge::vis {

/// OpenCV's view of an image; borrows its pixels.
inline cv::Mat view(Image& image) {
  return {static_cast<int>(image.height), static_cast<int>(image.width), CV_8UC3, image.bgr.data()};
}

/// Letters and lines in proportion to the picture.
struct Style {
  double font_scale;
  int line_width, text_width;
};
Style style_for(ImageSize size);

/// OpenCV's fonts have ASCII only.
std::string printable(const std::string& text);

/// Text on a filled ground with its lower left corner at `at`, moved into the picture where it
/// would leave it.
void draw_label(cv::Mat& canvas,
                const std::string& text,
                cv::Point at,
                const cv::Scalar& ground,
                const Style& style);

}  // namespace detforge::vis
