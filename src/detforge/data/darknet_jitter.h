#pragma once

#include <cstdint>

#include "detforge/data/resize.h"
#include "detforge/data/transforms.h"

namespace detforge {

/// What Darknet does with a training image of YOLOv3 (data.c, load_data_detection): changes its
/// aspect ratio by up to `jitter` of each side, fits it into a fixed size times a random factor,
/// and puts it anywhere inside, or cuts what is larger. With W, H of the image and w, h of the
/// size: ratio = (W + rand(-j W, j W)) / (H + rand(-j H, j H)) is the new aspect ratio; the larger
/// side becomes s * h or s * w, s = rand(min_scale, max_scale).
class DarknetJitter : public Transform {
 public:
  struct Options {
    ImageSize size = {416, 416};
    double jitter = 0.3;                     ///< of the image's sides
    double min_scale = 0.25, max_scale = 2;  ///< of the random factor, uniform between
    std::uint8_t fill = 127;                 ///< value of the border; Darknet's is 0.5
  };
  /// Throws Error unless the size is positive, 0 <= jitter < 1 and 0 < min_scale <= max_scale.
  explicit DarknetJitter(const Options& options,
                         Interpolation interpolation = Interpolation::kPillow);
  void apply(Sample& sample, Rng& rng) const override;

 private:
  Options options_;
  Interpolation interpolation_;
};

}  // namespace detforge
