#pragma once

#include <opencv2/core.hpp>

#include "detforge/structures/box.h"
#include "detforge/structures/segmentation.h"
#include "detforge/vis/colours.h"

namespace detforge::vis {

/// The piece of a mask that holds all its pixels: memory and time follow the object, not the
/// picture.
struct MaskPiece {
  cv::Mat bits;      ///< CV_8UC1, 0 or 255; empty if the mask has no pixel
  cv::Point corner;  ///< of the piece in the picture
};

/// Cuts the piece out of a mask. Throws Error if the mask fails check_rle().
MaskPiece cut_mask(RleView mask);

/// The piece for a picture enlarged by these factors, its outline smoothed between the pixels of
/// the mask.
MaskPiece enlarged(const MaskPiece& piece, double scale_x, double scale_y);

/// Mixes the colour into the picture where the mask is: `strength` 0 to 1.
void tint(cv::Mat& canvas, const MaskPiece& piece, const Colour& colour, double strength);

/// Mixes the colour into the border of a box, `line_width` pixels inside it.
void tint_frame(
    cv::Mat& canvas, const Box& box, const Colour& colour, int line_width, double strength);

/// Draws the mask's edge, holes included, just inside it: a line of the colour with a thin dark one
/// outside, so that it can be seen on any picture.
void outline(cv::Mat& canvas, const MaskPiece& piece, const Colour& colour, int line_width);

}  // namespace detforge::vis
