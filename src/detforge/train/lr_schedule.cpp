#include "detforge/train/lr_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <utility>

#include "detforge/core/error.h"

namespace detforge {
namespace {

// fvcore adds this to progress before it compares, so that k/n*n does not fall below k by rounding.
constexpr double kProgressEpsilon = 1e-6;

}  // namespace

double scale_lr_linearly(double lr, std::int64_t images_per_step, std::int64_t reference_images) {
  DETFORGE_CHECK(images_per_step > 0 && reference_images > 0,
                 "a learning rate for " + std::to_string(images_per_step) +
                     " images a step, from " + std::to_string(reference_images),
                 "set both numbers of images to at least 1");
  return lr * static_cast<double>(images_per_step) / static_cast<double>(reference_images);
}

LrSchedule::LrSchedule(LrScheduleOptions options) : options_(std::move(options)) {
  DETFORGE_CHECK(options_.max_iter > 0,
                 "the schedule has " + std::to_string(options_.max_iter) + " iterations",
                 "set SOLVER.MAX_ITER to at least 1");
  DETFORGE_CHECK(std::is_sorted(options_.steps.begin(), options_.steps.end()),
                 "the schedule's steps are not in rising order", "sort SOLVER.STEPS");
  DETFORGE_CHECK(options_.warmup_iters >= 0 && options_.num_decays >= 0,
                 "the schedule has a negative number of warm-up iterations or decays",
                 "set SOLVER.WARMUP_ITERS and SOLVER.NUM_DECAYS to at least 0");
  DETFORGE_CHECK(
      options_.base_lr > 0 && options_.base_lr_end >= 0 && options_.base_lr_end <= options_.base_lr,
      "the learning rate goes from " + std::to_string(options_.base_lr) + " to " +
          std::to_string(options_.base_lr_end),
      "set SOLVER.BASE_LR above 0 and SOLVER.BASE_LR_END between 0 and SOLVER.BASE_LR");
}

double LrSchedule::lr(std::int64_t iteration) const {
  return options_.base_lr *
         multiplier(static_cast<double>(iteration) / static_cast<double>(options_.max_iter));
}

double LrSchedule::decayed(double progress) const {
  if (options_.decay == LrScheduleOptions::Decay::kCosine) {
    const double end = options_.base_lr_end / options_.base_lr;
    return end + 0.5 * (1.0 - end) * (1.0 + std::cos(std::numbers::pi * progress));
  }
  return std::pow(options_.gamma, static_cast<double>(decays_until(progress)));
}

std::int64_t LrSchedule::decays_until(double progress) const {
  const double reached = progress + kProgressEpsilon;
  if (options_.decay == LrScheduleOptions::Decay::kStepWithFixedGamma) {
    const auto piece =
        static_cast<std::int64_t>(reached * static_cast<double>(options_.num_decays + 1));
    return std::min(piece, options_.num_decays);
  }
  const auto iteration =
      static_cast<std::int64_t>(reached * static_cast<double>(options_.max_iter));
  return std::count_if(options_.steps.begin(), options_.steps.end(), [&](std::int64_t step) {
    return step <= iteration && step <= options_.max_iter;
  });
}

double LrSchedule::multiplier(double progress) const {
  const double warmup_length = std::min(
      static_cast<double>(options_.warmup_iters) / static_cast<double>(options_.max_iter), 1.0);
  const bool decay_rescaled = options_.rescale_interval && warmup_length < 1.0;
  // Past a warm-up that is as long as the run fvcore goes on with the decay: never reached,
  // progress is below 1.
  if (progress + kProgressEpsilon > warmup_length) {
    return decayed(decay_rescaled ? (progress - warmup_length) / (1.0 - warmup_length) : progress);
  }
  const double start = options_.warmup_factor * decayed(0.0);
  if (options_.warmup == LrScheduleOptions::Warmup::kConstant) {
    return start;
  }
  const double end = options_.rescale_interval ? decayed(0.0) : decayed(warmup_length);
  const double fraction = progress / warmup_length;
  return end * fraction + start * (1.0 - fraction);
}

}  // namespace detforge
