#pragma once

#include <array>
#include <cstddef>

#include "detforge/data/transforms.h"

namespace detforge {

/// One change of an image's colours. The default changes nothing.
struct PhotometricChange {
  float brightness = 0;         ///< added to every value (0..255)
  float contrast = 1;           ///< factor of every value,
  bool contrast_first = false;  ///< before the change in HSV, or after it
  float saturation = 1;         ///< factor
  float hue = 0;                ///< turn of the colour circle in degrees, -360..360
  std::array<std::size_t, 3> channels = {0, 1, 2};  ///< of B, G, R: which one each is taken from
};

/// Changes the pixels in this order: brightness, [contrast], to HSV, saturation, hue, to BGR,
/// [contrast], channels. Computed in f32 without bounds in between, as mmdetection does; at the end
/// clamped to 0..255 and rounded, halves up. HSV is OpenCV's of f32 images: V = max(B, G, R), S =
/// (V - min) / |V|, H in degrees, which for values below 0 (after brightness) is no identity there
/// and back.
void change_colours_(Image& image, const PhotometricChange& change);

/// mmdetection's PhotoMetricDistortion: each part with probability 1/2, contrast first or last with
/// 1/2, then channels in any order. Objects stay as they are.
class PhotometricDistortion : public Transform {
 public:
  struct Options {
    double brightness = 32;                             ///< largest shift, up or down
    double min_contrast = 0.5, max_contrast = 1.5;      ///< factor, uniform between
    double min_saturation = 0.5, max_saturation = 1.5;  ///< factor, uniform between
    double hue = 18;                                    ///< largest turn in degrees
  };
  /// Throws Error unless the ranges are ascending, not negative, and hue at most 360.
  explicit PhotometricDistortion(const Options& options);
  void apply(Sample& sample, Rng& rng) const override;
  PhotometricChange draw(Rng& rng) const;

 private:
  Options options_;
};

}  // namespace detforge
