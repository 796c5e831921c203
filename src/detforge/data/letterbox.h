#pragma once

#include <cstdint>

#include "detforge/data/resize.h"
#include "detforge/data/transforms.h"

namespace detforge {

/// Darknet's letterbox: the image, its aspect ratio kept, as large as fits into a fixed size and in
/// the middle of it, the rest plain. It says where the picture lies (Sample::content), so that
/// detections find back to the file: x = (x' - left) * width / content width, the same for y.
class Letterbox : public Transform {
 public:
  struct Options {
    ImageSize size = {416, 416};
    std::uint8_t fill = 127;  ///< value of the border; Darknet's is 0.5
  };
  /// Throws Error unless the size is positive.
  explicit Letterbox(const Options& options, Interpolation interpolation = Interpolation::kPillow);
  /// Draws nothing.
  void apply(Sample& sample, Rng& rng) const override;

 private:
  Options options_;
  Interpolation interpolation_;
};

/// Where a picture of this size goes in a letterbox of that size: the side that limits fills it,
/// the other is rounded down, but never below 1 pixel; a border of odd width is wider at the right
/// or bottom.
Window letterbox_content(ImageSize picture, ImageSize box);

}  // namespace detforge
