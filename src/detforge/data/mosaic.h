#pragma once

#include <array>
#include <cstdint>

#include "detforge/data/resize.h"
#include "detforge/data/transforms.h"

namespace detforge {

struct MosaicOptions {
  double probability = 1;                   ///< that an image becomes part of a mosaic
  ImageSize size = {640, 640};              ///< of the result
  double min_scale = 0.5, max_scale = 1.5;  ///< of the pictures, uniform between; 1 = each fits
                                            ///< into `size`
  std::uint8_t fill = 114;        ///< value of pixels that no picture covers
  double min_visible_frac = 0.1;  ///< of its box's area that an object must keep, or it is removed
  double min_side = 2;            ///< pixels that its box must keep in both directions
};

/// Puts four pictures around a random point of one image (Bochkovskiy et al., YOLOv4,
/// arXiv:2004.10934, sec. 3.3; the placing is YOLOv5's without rotation, shear and translation).
/// Every picture, its aspect ratio kept, is fitted into the size times one random scale s for all
/// four, and has one corner at the point, whose coordinates are size / 2 + s * size * rand(-1/2,
/// 1/2); what lies outside the size is cut. Pictures, boxes and masks are resampled once.
class Mosaic {
 public:
  using Options = MosaicOptions;
  static constexpr std::size_t kOthers = 3;

  /// Throws Error for an impossible option.
  explicit Mosaic(const Options& options, Interpolation interpolation = Interpolation::kPillow);

  double probability() const { return options_.probability; }
  ImageSize size() const { return options_.size; }
  /// Makes `sample` the mosaic of itself and the others, in random places, of this size. It keeps
  /// its id and path; objects of all four follow one another, boxes clipped to what is shown.
  /// Boxes must lie inside their images (filter_instances()). Returns the number of objects that
  /// were removed, as less than min_visible_frac or min_side of them is shown.
  std::int64_t compose_(Sample& sample,
                        std::array<Sample, kOthers> others,
                        ImageSize size,
                        Rng& rng) const;

 private:
  std::int64_t add_(Sample& tile, const Window& place, Sample& mosaic) const;

  Options options_;
  Interpolation interpolation_;
};

}  // namespace detforge
