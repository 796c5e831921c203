#pragma once

#include <array>
#include <cstdint>

#include "detforge/data/resize.h"
#include "detforge/data/transforms.h"

namespace detforge {

/// mmdetection's keep-ratio size: the largest that fits, in either orientation, into the two edges.
/// Halves rounded up, never below 1 pixel.
///   edges  in any order: bounds of the longer and the shorter side
ImageSize keep_ratio_size(ImageSize size, std::array<std::int64_t, 2> edges);

/// mmdetection's Resize with multiscale_mode "range" and keep_ratio: the bound of the longer side
/// is random between those of `low` and `high`, and so is that of the shorter side, each for
/// itself. low = high is a fixed size, as for tests.
class ResizeRange : public Transform {
 public:
  struct Options {
    std::array<std::int64_t, 2> low = {320, 320}, high = {608, 608};  ///< edges, in any order
  };
  /// Throws Error unless 0 < low <= high for both the longer and the shorter edge.
  explicit ResizeRange(const Options& options,
                       Interpolation interpolation = Interpolation::kPillow);
  void apply(Sample& sample, Rng& rng) const override;

 private:
  Options options_;
  Interpolation interpolation_;
};

}  // namespace detforge
