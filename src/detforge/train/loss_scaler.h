#pragma once

#include <cstdint>

namespace detforge {

struct LossScaleOptions {
  bool dynamic = false;
  double value = 1;  ///< static scale; dynamic: where it starts
  double growth_factor = 2, backoff_factor = 0.5;
  std::int64_t growth_interval = 2000;   ///< good steps in a row before the scale grows
  double floor = 1, ceiling = 16777216;  ///< 2^24, Apex's limit
};

/// Dynamic as Apex and torch's GradScaler start it.
constexpr LossScaleOptions dynamic_loss_scale() {
  return {.dynamic = true, .value = 65536};
}

/// The factor of the loss that keeps small gradients above the smallest f16. A static one never
/// changes. A dynamic one is halved by every step that overflowed, and doubled after 2000 good ones
/// in a row. Ref: Micikevicius et al., arXiv:1710.03740, sec. 3.2; constants of Apex and
/// torch.cuda.amp.GradScaler.
class LossScaler {
 public:
  /// Throws Error unless the scale lies between floor and ceiling (static: is above 0).
  explicit LossScaler(LossScaleOptions options = {});

  double scale() const { return scale_; }
  bool is_dynamic() const { return options_.dynamic; }
  /// No smaller scale will come: a dynamic scaler at its floor, any static one.
  bool is_at_floor() const { return !options_.dynamic || scale_ <= options_.floor; }

  /// After a step: were all gradients finite?
  void update(bool finite);

  /// Good steps since the scale last changed.
  std::int64_t good_steps() const { return good_steps_; }
  /// Goes on where a saved scaler stood, or at the floor if that was a static one below it. Throws
  /// Error if the scale is no number above 0. A static scaler keeps its own scale, which the config
  /// says.
  void restore(double scale, std::int64_t good_steps);

 private:
  void check(double scale) const;

  LossScaleOptions options_;
  double scale_;
  std::int64_t good_steps_ = 0;
};

}  // namespace detforge
