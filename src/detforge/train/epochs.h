#pragma once

#include <cstdint>
#include <vector>

namespace detforge {

/// The one place that turns epochs into iterations. An epoch has ceil(images / images per step)
/// iterations, as mmdetection and PyTorch's DataLoader count them; after E epochs of them the
/// stream of batches, which has no gap between two passes (see BatchSampler), has gone at least E
/// times over the images, and at most one step an epoch further.
///   const EpochLength epoch({.images = 117266, .images_per_step = 64});
///   max_iter = epoch.iterations(273);   // 273 * 1833
class EpochLength {
 public:
  struct Options {
    double images =
        0;  ///< of one pass: those that are trained on, repeats counted (not integer then)
    std::int64_t images_per_step = 0;  ///< SOLVER.IMS_PER_BATCH: over all ranks and parts
  };
  /// Throws Error unless both are positive.
  explicit EpochLength(Options options);

  /// At least 1.
  std::int64_t iterations() const { return iterations_; }
  /// The iteration at which `epochs` are over, to the nearest for broken ones. 0 or less, which
  /// switches a period off, stays as it is; anything above gives at least 1.
  std::int64_t iterations(double epochs) const;
  /// The same of each of several, such as those at which the rate decays.
  std::vector<std::int64_t> iterations(const std::vector<double>& epochs) const;
  /// How many epochs `iterations` are.
  double epochs(std::int64_t iterations) const;

 private:
  std::int64_t iterations_;
};

}  // namespace detforge
