#pragma once

#include <string>
#include <vector>

#include <opencv2/core.hpp>

#include "detforge/structures/box.h"
#include "detforge/vis/canvas.h"

namespace detforge::vis {

/// What is to be written at one object.
struct Label {
  Box box;  ///< of the object, in pixels of the canvas
  std::string text;
  std::string short_text;  ///< instead of `text` where its plate would be wider than the object
  Colour colour;
};

/// Writes labels beside their objects, the first ones first: above the box, below it, beside it or
/// on it, wherever the plate covers least of other plates and of small objects. Small objects get
/// smaller letters. A label that would hide others wherever it stands is left out.
void draw_labels(cv::Mat& canvas, const std::vector<Label>& labels, const Style& style);

}  // namespace detforge::vis
