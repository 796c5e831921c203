#include "detforge/train/loss_scaler.h"

#include <algorithm>

#include <fmt/format.h>

#include "detforge/core/error.h"

namespace detforge {

LossScaler::LossScaler(LossScaleOptions options) : options_(options), scale_(options.value) {
  check(scale_);
}

void LossScaler::check(double scale) const {
  const double lowest = options_.dynamic ? options_.floor : 0;
  DETFORGE_CHECK(
      scale > 0 && scale >= lowest && scale <= options_.ceiling,
      fmt::format("a loss scale of {}", scale),
      fmt::format("choose LOSS_SCALE_VALUE dynamic or a number up to {}", options_.ceiling));
}

void LossScaler::update(bool finite) {
  if (!options_.dynamic) {
    return;
  }
  if (!finite) {
    scale_ = std::max(scale_ * options_.backoff_factor, options_.floor);
    good_steps_ = 0;
  } else if (++good_steps_ == options_.growth_interval) {
    scale_ = std::min(scale_ * options_.growth_factor, options_.ceiling);
    good_steps_ = 0;
  }
}

void LossScaler::restore(double scale, std::int64_t good_steps) {
  if (options_.dynamic) {
    check(scale > 0 ? std::max(scale, options_.floor) : scale);
    scale_ = std::max(scale, options_.floor);
    good_steps_ = good_steps;
  }
}

}  // namespace detforge
