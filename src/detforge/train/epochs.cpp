#include "detforge/train/epochs.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "detforge/core/error.h"

namespace detforge {

EpochLength::EpochLength(Options options) {
  DETFORGE_CHECK(options.images > 0 && options.images_per_step > 0,
                 "an epoch of " + std::to_string(options.images) + " images with " +
                     std::to_string(options.images_per_step) + " a step",
                 "give a data set with images and set SOLVER.IMS_PER_BATCH to 1 or more");
  iterations_ = static_cast<std::int64_t>(
      std::ceil(options.images / static_cast<double>(options.images_per_step)));
}

std::int64_t EpochLength::iterations(double epochs) const {
  if (epochs <= 0) {
    return static_cast<std::int64_t>(epochs);
  }
  const double exact = epochs * static_cast<double>(iterations_);
  return std::max<std::int64_t>(std::llround(exact), 1);
}

std::vector<std::int64_t> EpochLength::iterations(const std::vector<double>& epochs) const {
  std::vector<std::int64_t> result;
  for (const double epoch : epochs) {
    result.push_back(iterations(epoch));
  }
  return result;
}

double EpochLength::epochs(std::int64_t iterations) const {
  return static_cast<double>(iterations) / static_cast<double>(iterations_);
}

}  // namespace detforge
