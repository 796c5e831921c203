#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "detforge/train/loop.h"
#include "detforge/train/tensorboard.h"

namespace detforge {

/// Images per second as the reference project prints it at the end of a run:
///   FPS = images per step * (steps - 10) / (seconds of steps 10, 11, ..., hooks excluded, counted
///   from 1)
/// The first 9 steps warm up. The time spans steps - 9 steps, one more than the numerator counts,
/// so FPS is understated by one step; kept so that numbers can be compared.
class FpsMeter {
 public:
  void add_step(double seconds, std::int64_t images);
  /// 0 with 10 steps or fewer: not defined.
  double fps() const;

 private:
  std::int64_t steps_ = 0, images_ = 0;
  double seconds_ = 0;
};

struct TrainingLogOptions {
  std::filesystem::path folder;  ///< run folder: metrics.jsonl and TensorBoard events go there
  std::int64_t max_iter = 90000;
  std::int64_t start_iter =
      0;  ///< of a resumed run: later lines of metrics.jsonl are removed, they come again
  std::int64_t period = 20;      ///< steps between lines; values are medians over them
  std::int64_t epoch_iters = 0;  ///< iterations of an epoch (EpochLength); 0: no epochs in the log
  bool tensorboard = true;
};

/// Every `period` steps, and after the last: one line on the console, one JSON object in
/// metrics.jsonl and scalars for TensorBoard, with Detectron2's names: iteration, total_loss, every
/// loss, lr, time, data_time, eta_seconds, max_mem (peak RSS, MiB), and images_per_s, grad_norm,
/// loss_scale (if it is not 1), skipped_steps, epoch (epochs done, 2.5 in the middle of the third),
/// max_tensor_mem (MiB of it in large tensors; only with the caching allocator), comm_time and
/// comm_exposed (several ranks: seconds of summing gradients, and of them what the step waited
/// for). Medians are over finite steps; without any they are null. A line that cannot be written is
/// an error message, not an Error. After the last step: `FPS = x`.
class TrainingLog : public Hook {
 public:
  explicit TrainingLog(TrainingLogOptions options);
  void after_step(const StepReport& report) override;
  /// Adds values of a step that come from elsewhere, such as an evaluation's.
  void record(std::int64_t iteration, const std::vector<std::pair<std::string, double>>& values);

 private:
  /// Values by name in order of first appearance; a median each.
  struct Window {
    std::vector<std::pair<std::string, std::vector<double>>> values;
    void add(const std::string& name, double value);
    double median(const std::string& name) const;
  };
  void add_to_window(const StepReport& report);
  void write_period(const StepReport& report);
  double epochs_done(const StepReport& report) const;
  std::string console_line(const StepReport& report, double eta_s, double images_per_s) const;

  TrainingLogOptions options_;
  std::unique_ptr<TensorBoardWriter> tensorboard_;
  Window window_;
  std::vector<std::string> loss_names_;
  std::int64_t steps_ = 0, skipped_ = 0;
  FpsMeter fps_;
};

/// Peak resident memory of this process in MiB.
double peak_rss_mib();

}  // namespace detforge
