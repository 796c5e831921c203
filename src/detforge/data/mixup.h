#pragma once

#include <cstdint>

#include "detforge/core/rng.h"
#include "detforge/structures/sample.h"

namespace detforge {

/// Mixup (Zhang et al., arXiv:1710.09412; for detection Zhang et al., Bag of Freebies,
/// arXiv:1902.04103, sec. 3.1): two images shine through one another, the objects of both stay.
struct MixupOptions {
  double probability = 1;  ///< that an image is mixed with another
  double alpha = 1.5;  ///< both parameters of the Beta distribution of the first image's weight;
                       ///< large: near one half
  std::uint8_t padding = 114;  ///< value beside and below the smaller image
};

/// Throws Error for an impossible option.
void check_mixup(const MixupOptions& options);

/// Makes `sample` weight * sample + (1 - weight) * other, rounded to the nearest, both at the top
/// left of an image that holds both; objects of `other` follow those of `sample`, which keeps its
/// id and path. Returns the weight, a draw of Beta(alpha, alpha) in steps of 2^-16.
double mix_(Sample& sample, Sample other, const MixupOptions& options, Rng& rng);

}  // namespace detforge
