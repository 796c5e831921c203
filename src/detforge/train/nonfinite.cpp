#include "detforge/train/nonfinite.h"

#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "detforge/core/error.h"
#include "detforge/core/log.h"
#include "detforge/train/find_nonfinite.h"
#include "detforge/train/model_state.h"
#include "detforge/train/replay_bundle.h"

namespace detforge {
namespace {

std::string losses_text(const std::vector<std::pair<std::string, double>>& losses) {
  std::string text;
  for (const auto& [name, value] : losses) {
    text += fmt::format("{}{} {:.4g}", text.empty() ? "" : ", ", name, value);
  }
  return text;
}

}  // namespace

NonFiniteGuard::NonFiniteGuard(Detector& detector,
                               const Precision& precision,
                               NonFiniteOptions options)
    : detector_(detector), precision_(precision), options_(std::move(options)) {}

void NonFiniteGuard::after_step(const StepReport& report) {
  if (report.result.updated()) {
    consecutive_ = failures_ = 0;
    has_bundle_of_this_row_ = false;
    last_finite_iteration_ = report.iteration;
    last_finite_losses_ = report.result.losses;
    return;
  }
  ++skipped_;
  ++consecutive_;
  failures_ = is_overflow(report) ? 0 : failures_ + 1;
  const bool ends = is_one_too_many(report);
  if (is_overflow(report) && !ends) {
    log::info("iteration {}: overflow of {}: step skipped, loss scale {:.6g} -> {:.6g}",
              report.iteration, report.result.nonfinite, report.result.loss_scale,
              precision_.scaler().scale());
    return;
  }
  if (!std::exchange(has_bundle_of_this_row_, true)) {
    write_bundle(report);
  }
  if (ends) {
    stop(report);
  }
  log::warn("iteration {}: step skipped, the weights are unchanged: {} ({} skipped so far)",
            report.iteration, describe(report), skipped_);
}

bool NonFiniteGuard::is_overflow(const StepReport& report) const {
  return precision_.is_mixed() && std::isfinite(report.result.total);
}

bool NonFiniteGuard::is_one_too_many(const StepReport& report) const {
  const LossScaler& scaler = precision_.scaler();
  if (scaler.is_dynamic()) {
    const bool was_at_floor = report.result.loss_scale <= scaler.scale();  // it was not halved
    return was_at_floor || consecutive_ > options_.max_consecutive_overflows;
  }
  return failures_ > options_.max_consecutive_skips ||
         (is_overflow(report) && consecutive_ > options_.max_consecutive_overflows);
}

void NonFiniteGuard::stop(const StepReport& report) const {
  const double usual_lr = options_.usual_lr_per_image * static_cast<double>(report.result.images);
  const std::string place = first_nonfinite_output(detector_, report.batch);
  std::string fix = fmt::format(
      "lower SOLVER.BASE_LR (lr was {:.4g}; the usual recipe has {:.4g} for {} images), lengthen "
      "SOLVER.WARMUP_ITERS, or clip gradients; the last checkpoint is finite",
      report.lr, usual_lr, report.result.images);
  std::string scale;
  if (precision_.is_mixed()) {
    scale = fmt::format(", the loss scale is {:.6g}", report.result.loss_scale);
    fix += "; if FP32 (AMP 0) trains, a smaller LOSS_SCALE_VALUE or HALF_TYPE bf16 may help";
  }
  throw Error(fmt::format("training diverged: {}; {} steps in a row were not finite{}; first layer "
                          "whose output is not finite: {}",
                          describe(report), consecutive_, scale,
                          place.empty() ? "none, only gradients" : place),
              fix)
      .add_where(fmt::format("iteration {}", report.iteration));
}

std::string NonFiniteGuard::describe(const StepReport& report) const {
  const ImageBatch& images = report.batch.images;
  const std::string before =
      last_finite_iteration_ < 0
          ? "no step of this process was finite"
          : fmt::format("last finite at iteration {}: {}", last_finite_iteration_,
                        losses_text(last_finite_losses_));
  return fmt::format("{} (losses: {}; lr {:.4g}; image ids {}; files {}; {})",
                     report.result.nonfinite, losses_text(report.result.losses), report.lr,
                     fmt::join(images.image_ids, ", "), fmt::join(images.paths, ", "), before);
}

void NonFiniteGuard::write_bundle(const StepReport& report) const {
  const bool is_ours =
      report.result.is_own_fault || (options_.rank == 0 && std::isfinite(report.result.total));
  if (!is_ours) {
    return;
  }
  const std::string rank = options_.rank == 0 ? "" : fmt::format("_rank_{}", options_.rank);
  const std::filesystem::path path =
      options_.folder / fmt::format("nonfinite_iter_{}{}.pth", report.iteration, rank);
  try {
    write_replay_bundle(path, {.iteration = report.iteration,
                               .lr = report.lr,
                               .loss_scale = report.result.loss_scale,
                               .nonfinite = report.result.nonfinite,
                               .losses = report.result.losses,
                               .batch = report.batch,
                               .model = model_state_value(detector_),
                               .config = options_.config_yaml});
    log::warn("wrote {}: the step that was not finite; `detforge replay` makes it again",
              path.string());
  } catch (const Error& error) {
    // The report of the step itself matters more than its bundle.
    log::warn("no replay bundle: {}", error.what());
  }
}

}  // namespace detforge
