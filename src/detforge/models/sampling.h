#pragma once

#include <cstdint>

#include "detforge/core/rng.h"
#include "detforge/core/tensor.h"

namespace detforge {

struct SamplingOptions {
  std::int64_t batch_size = 256;   ///< labels to keep at most
  double positive_fraction = 0.5;  ///< of batch_size that may be positive at most
  std::int64_t negative_label =
      0;  ///< 0 for anchors, K for ROIs; -1 is ignored, all others are positive
};

struct SampledIndices {
  Tensor positive;  ///< [P] i64, rising
  Tensor negative;  ///< [Q] i64, rising; P + Q <= batch_size
};

/// A random subset of positive and negative labels [N] i64: at most batch_size * positive_fraction
/// positives, the rest filled with negatives as far as there are any. Where all fit, all are taken
/// and `rng` is not used. The choice depends on the labels and on `rng` only, not on rank or
/// thread. Ref: Detectron2's subsample_labels.
SampledIndices subsample_labels(const Tensor& labels, const SamplingOptions& options, Rng rng);

}  // namespace detforge
