#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "detforge/train/loop.h"
#include "detforge/train/precision.h"

namespace detforge {

struct NonFiniteOptions {
  /// So many steps in a row may be skipped; one more ends the run.
  std::int64_t max_consecutive_skips = 3;
  /// The same for steps of mixed precision whose losses are finite and whose gradients overflow.
  std::int64_t max_consecutive_overflows = 50;
  std::filesystem::path folder;           ///< run folder: nonfinite_iter_N.pth is written there
  std::string config_yaml;                ///< goes into the replay bundle
  double usual_lr_per_image = 0.02 / 16;  ///< of the model's recipes (Detectron2's), for the advice
  std::int64_t rank = 0;                  ///< of this process
};

/// Watches, on each rank, for steps whose losses or gradients are not finite (train_step has not
/// applied them). The first of a row leaves a replay bundle: the batch, the weights that it met,
/// the rate, the loss scale and the config, of each rank whose losses were not finite, or of rank
/// 0. Each is reported with its loss terms, rate, images and the last finite losses; one too many
/// in a row is an Error, which names the first layer whose output is not finite. In mixed
/// precision, gradients that overflow behind finite losses are expected: a line in the log and no
/// bundle. Each skipped step halves a dynamic loss scale; the first one at its floor is that Error.
class NonFiniteGuard : public Hook {
 public:
  NonFiniteGuard(Detector& detector, const Precision& precision, NonFiniteOptions options);
  void after_step(const StepReport& report) override;
  /// Steps skipped since the start of this process.
  std::int64_t skipped() const { return skipped_; }

 private:
  bool is_overflow(const StepReport& report) const;
  bool is_one_too_many(const StepReport& report) const;
  [[noreturn]] void stop(const StepReport& report) const;
  std::string describe(const StepReport& report) const;
  void write_bundle(const StepReport& report) const;

  Detector& detector_;
  const Precision& precision_;
  NonFiniteOptions options_;
  std::int64_t skipped_ = 0;
  std::int64_t consecutive_ = 0;  ///< skipped steps in a row
  std::int64_t failures_ = 0;     ///< those in a row that are no overflows
  bool has_bundle_of_this_row_ = false;
  std::int64_t last_finite_iteration_ = -1;
  std::vector<std::pair<std::string, double>> last_finite_losses_;
};

}  // namespace detforge
