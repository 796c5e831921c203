#pragma once

#include "detforge/data/resize.h"
#include "detforge/data/transforms.h"

namespace detforge {

/// Stretches every image to one size, whatever its aspect ratio: mmdetection's Resize without
/// keep_ratio, and what the forks of Darknet do unless told to letterbox.
class FixedResize : public Transform {
 public:
  /// Throws Error unless the size is positive.
  explicit FixedResize(ImageSize size, Interpolation interpolation = Interpolation::kPillow);
  /// Draws nothing.
  void apply(Sample& sample, Rng& rng) const override;

 private:
  ImageSize size_;
  Interpolation interpolation_;
};

}  // namespace detforge
