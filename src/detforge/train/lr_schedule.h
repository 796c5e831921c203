#pragma once

#include <cstdint>
#include <vector>

namespace detforge {

struct LrScheduleOptions {
  enum class Decay {
    kMultiStep,           ///< WarmupMultiStepLR: times gamma at each of `steps`
    kCosine,              ///< WarmupCosineLR: half a cosine from base_lr to base_lr_end
    kStepWithFixedGamma,  ///< WarmupStepWithFixedGammaLR: times gamma num_decays times, equally
                          ///< spaced
  };
  enum class Warmup {
    kLinear,    ///< from warmup_factor * base_lr to the decay's value at the end of the warm-up
    kConstant,  ///< warmup_factor * base_lr
  };
  Decay decay = Decay::kMultiStep;
  double base_lr = 0.02;
  double base_lr_end = 0;  ///< cosine only: rate at max_iter
  std::int64_t max_iter = 90000;
  std::vector<std::int64_t> steps = {60000,
                                     80000};  ///< multi-step only; those beyond max_iter never come
  double gamma = 0.1;
  std::int64_t num_decays = 3;  ///< step with fixed gamma only
  Warmup warmup = Warmup::kLinear;
  std::int64_t warmup_iters = 1000;  ///< 0: no warm-up
  double warmup_factor = 1e-3;
  bool rescale_interval = false;  ///< true: the decay starts (from 0) where the warm-up ends
};

/// The linear rule: a rate that was chosen for `reference_images` per step, for `images_per_step`.
/// `images_per_step` counts every rank and every part of an accumulated batch. Throws Error unless
/// both are positive. Ref: Goyal et al., arXiv:1706.02677; mmdetection's auto_scale_lr.
double scale_lr_linearly(double lr, std::int64_t images_per_step, std::int64_t reference_images);

/// Detectron2's learning rate as a pure function of the iteration: base_lr * multiplier(iteration /
/// max_iter). A decay that happens during the warm-up is not lost: the warm-up then leads to the
/// decayed value. Immutable, so it is safe to share. Throws Error if the options make no sense (see
/// the constructor). Ref: detectron2/solver (LRMultiplier, WarmupParamScheduler) and fvcore's
/// ParamSchedulers.
class LrSchedule {
 public:
  explicit LrSchedule(LrScheduleOptions options);

  /// The rate of step `iteration` (0 = first).
  double lr(std::int64_t iteration) const;
  /// The factor on base_lr at `progress` = iteration / max_iter in [0, 1], warm-up included.
  double multiplier(double progress) const;
  const LrScheduleOptions& options() const { return options_; }

 private:
  double decayed(double progress) const;
  std::int64_t decays_until(double progress) const;

  LrScheduleOptions options_;
};

}  // namespace detforge
