#pragma once

#include <cstdint>

#include "detforge/data/resize.h"
#include "detforge/data/transforms.h"

namespace detforge {

/// Sizes and factors of ResizeScale followed by FixedSizeCrop.
struct LargeScaleJitterOptions {
  double min_scale = 0.1, max_scale = 2.0;  ///< of the random factor, uniform between
  ImageSize size = {1024, 1024};            ///< of every image afterwards
  std::uint8_t padding = 128;               ///< value of pixels beside a small image
};

/// Detectron2's ResizeScale, the first half of large-scale jitter (Ghiasi et al., Simple
/// Copy-Paste, arXiv:2012.07177, sec. 3): fits the image, its aspect ratio kept, into the target
/// size times a random factor. Sides are rounded to the nearest pixel, ties to even, and never
/// below 1.
class ResizeScale : public Transform {
 public:
  struct Options {
    double min_scale = 0.1, max_scale = 2.0;  ///< of the random factor, uniform between
    ImageSize target = {1024, 1024};
  };
  /// Throws Error unless 0 < min_scale <= max_scale and the target is positive.
  explicit ResizeScale(Options options, Interpolation interpolation = Interpolation::kPillow);
  void apply(Sample& sample, Rng& rng) const override;

 private:
  Options options_;
  Interpolation interpolation_;
};

/// Detectron2's FixedSizeCrop, the second half: a window of fixed size. Where the image is larger,
/// the window lies anywhere inside (one random number places it in both directions, as there);
/// where it is smaller, it is padded at the right and the bottom.
class FixedSizeCrop : public Transform {
 public:
  struct Options {
    ImageSize size = {1024, 1024};
    std::uint8_t padding = 128;  ///< Detectron2's, near the mean pixel
  };
  /// Throws Error unless the size is positive.
  explicit FixedSizeCrop(Options options);
  void apply(Sample& sample, Rng& rng) const override;

 private:
  Options options_;
};

}  // namespace detforge
