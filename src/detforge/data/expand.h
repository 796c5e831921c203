#pragma once

#include <cstdint>

#include "detforge/data/transforms.h"

namespace detforge {

/// mmdetection's Expand: puts the image anywhere on a plain one that is 1 to `max_ratio` times as
/// high and wide, so that small objects are seen. Masks and boxes move along.
class Expand : public Transform {
 public:
  struct Options {
    double probability = 0.5;
    double min_ratio = 1, max_ratio = 2;  ///< of the sides, uniform between
    std::uint8_t fill = 0;                ///< value of the pixels around
  };
  /// Throws Error unless 1 <= min_ratio <= max_ratio and the probability is one.
  explicit Expand(const Options& options);
  void apply(Sample& sample, Rng& rng) const override;

 private:
  Options options_;
};

}  // namespace detforge
