#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "detforge/data/batch_source.h"
#include "detforge/train/ema.h"
#include "detforge/train/lr_schedule.h"
#include "detforge/train/step.h"

namespace detforge {

/// Where a run stands: counted in steps and in images, so that it means the same for any number of
/// ranks.
struct TrainProgress {
  std::int64_t iteration = 0;    ///< steps done, skipped ones included
  std::int64_t images_seen = 0;  ///< over all ranks
  bool operator==(const TrainProgress&) const = default;
};

/// What hooks see after each step. Borrowed for the duration of the call.
struct StepReport {
  std::int64_t iteration;  ///< of this step, 0 = the run's first (as Detectron2 prints it)
  const Batch& batch;
  const StepResult& result;
  double lr;
  double data_s;           ///< seconds spent waiting for the batch
  double step_s;           ///< seconds of waiting and computing, without hooks
  TrainProgress progress;  ///< with this step
  bool last;               ///< no step follows: the end is reached, or a signal asked to stop
  bool stopping;           ///< a signal asked to stop: do what must be done, leave the rest
};

enum class StopReason {
  kFinished,  ///< max_iter steps are done
  kSignal,    ///< SIGTERM or SIGINT arrived: the run can be resumed
};

/// Something to do between steps.
class Hook {
 public:
  virtual ~Hook() = default;
  virtual void after_step(const StepReport& report) = 0;
};

/// Everything that a run trains with; borrowed.
struct TrainParts {
  Detector& detector;
  Sgd& optimizer;
  const LrSchedule& schedule;
  BatchSource& source;
  Communicator& communicator;
  Ema* ema = nullptr;  ///< updated after each step that changed the weights; null: no average
  Precision* precision = nullptr;      ///< null: all is f32
  GradientReducer* reducer = nullptr;  ///< needed by several ranks
};

/// What a run with a rank lost can still do: keep the state before the step that failed.
///   place  of the batch source after the steps of `progress`
using Rescue = std::function<void(const TrainProgress& progress, const std::string& place)>;

struct LoopOptions {
  std::int64_t max_iter = 90000;
  TrainProgress start = {};             ///< of a resumed run
  std::int64_t accumulation_steps = 1;  ///< parts of a batch, see StepOptions
  bool is_deterministic = false;        ///< see StepOptions
  bool talks_in_model = false;          ///< see StepOptions
  bool second_signal_kills = true;      ///< false: whoever started this rank sees to that
  Rescue rescue = {};                   ///< called on CommunicationError, which is then rethrown
};

struct LoopResult {
  StopReason reason;
  TrainProgress progress;
};

/// Trains from `start` to `max_iter` steps, or until SIGTERM or SIGINT; the step in progress is
/// completed and the hooks are called as after the last step. Hooks are called after each step in
/// the order given, which is: NonFiniteGuard, TrainingLog, CheckpointHook, EvaluationHook. What a
/// hook or the loader throws ends the run; other ranks are told. A signal to one rank stops all
/// after the same step. Throws Error if `start` is at max_iter already.
LoopResult train(const TrainParts& parts,
                 const LoopOptions& options,
                 const std::vector<Hook*>& hooks);

}  // namespace detforge
