#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "detforge/train/checkpoint.h"
#include "detforge/train/metrics.h"

namespace detforge {

/// What an evaluation found. train/ does not know how: cli/ passes the function that does it.
struct EvaluationResult {
  std::optional<double>
      metric;  ///< higher is better, decides best.pth; nothing if not defined (no ground truth)
  std::vector<std::pair<std::string, double>>
      values;  ///< for metrics.jsonl and TensorBoard: bbox/AP, ...
};

/// Evaluates every `period` steps (0: not between) and after the last one unless a signal ended the
/// run. The detector is in eval mode during `evaluate`, holding the average of its weights if there
/// is one, and in training mode with its own weights after it. What
/// `evaluate` throws ends the run only after the last step; before, it is an error in the log.
class EvaluationHook : public Hook {
 public:
  using Evaluate =
      std::function<EvaluationResult(std::int64_t iteration)>;  ///< gets the number of steps done
  EvaluationHook(Evaluate evaluate,
                 std::int64_t period,
                 Detector& detector,
                 Checkpointer& checkpointer,
                 TrainingLog* log,
                 Ema* ema = nullptr);
  void after_step(const StepReport& report) override;

 private:
  EvaluationResult evaluate(std::int64_t iteration) const;

  Evaluate evaluate_;
  std::int64_t period_;
  Detector& detector_;
  Checkpointer& checkpointer_;
  TrainingLog* log_;  ///< null on ranks that have none
  Ema* ema_;
};

}  // namespace detforge
