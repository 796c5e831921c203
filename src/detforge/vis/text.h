#pragma once

#include <string>

#include <opencv2/core.hpp>

#include "detforge/vis/colours.h"

namespace detforge::vis {

/// OpenCV's fonts have ASCII only: what else is in the text becomes '?'.
std::string printable(const std::string& text);

/// Width and height of the plate that draw_plate() draws.
cv::Size plate_size(const std::string& text, double text_height);

/// Text on a filled plate with its upper left corner at `corner`; what lies outside is cut. Dark
/// letters on light colours, white ones on dark. Letters are drawn large and reduced, so that small
/// ones stay smooth.
void draw_plate(cv::Mat& canvas,
                const std::string& text,
                cv::Point corner,
                const Colour& ground,
                double text_height);

}  // namespace detforge::vis
