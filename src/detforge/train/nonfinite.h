#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "detforge/train/loop.h"

namespace detforge {

struct NonFiniteOptions {
  std::int64_t max_consecutive_skips =
      3;                         ///< so many steps in a row may be skipped; one more ends the run
  std::filesystem::path folder;  ///< run folder: nonfinite_iter_N.pth is written there
  std::string config_yaml;       ///< goes into the replay bundle
  double usual_lr_per_image = 0.02 / 16;  ///< of the model's recipes (Detectron2's), for the advice
};

/// Watches for steps whose losses or gradients are not finite (train_step has not applied them).
/// The first of a row leaves a replay bundle: the batch, the weights that it met, the rate and the
/// config. Each is reported with its loss terms, rate, images and the last finite losses; one too
/// many in a row is an Error.
class NonFiniteGuard : public Hook {
 public:
  NonFiniteGuard(const Detector& detector, NonFiniteOptions options);
  void after_step(const StepReport& report) override;
  /// Steps skipped since the start of this process.
  std::int64_t skipped() const { return skipped_; }

 private:
  std::string describe(const StepReport& report) const;
  void write_bundle(const StepReport& report) const;

  const Detector& detector_;
  NonFiniteOptions options_;
  std::int64_t skipped_ = 0, consecutive_ = 0;
  std::int64_t last_finite_iteration_ = -1;
  std::vector<std::pair<std::string, double>> last_finite_losses_;
};

}  // namespace detforge
