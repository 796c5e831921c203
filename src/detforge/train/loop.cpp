#include "detforge/train/loop.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include "detforge/core/error.h"
#include "detforge/core/log.h"
#include "detforge/core/timer.h"
#include "detforge/train/signals.h"

namespace detforge {

namespace {

/// One step, from its batch to its report's hooks.
class Loop {
 public:
  Loop(const TrainParts& parts, const LoopOptions& options, const std::vector<Hook*>& hooks)
      : parts_(parts), options_(options), hooks_(hooks), progress_(options.start) {}

  LoopResult run() {
    keep_place();
    while (progress_.iteration < options_.max_iter) {
      if (step()) {
        log::info("{}: stopped cleanly after iteration {}; continue with --resume", stop_reason(),
                  progress_.iteration - 1);
        return {StopReason::kSignal, progress_};
      }
    }
    return {StopReason::kFinished, progress_};
  }

  const TrainProgress& progress() const { return progress_; }
  const std::string& place() const { return place_; }

 private:
  static std::string stop_reason() {
    const char* signal = StopSignals::received();
    return signal != nullptr ? signal : "a signal to another rank";
  }

  /// For a rescue: the source itself is a batch further when a step fails.
  void keep_place() {
    if (options_.rescue) {
      place_ = parts_.source.state();
    }
  }

  /// True if a signal asked to stop.
  bool step() {
    const std::int64_t iteration = progress_.iteration;
    const double lr = parts_.schedule.lr(iteration);
    parts_.communicator.enter("loading data", iteration);
    const Timer timer;
    const Batch batch = parts_.source.next();
    const double data_s = timer.elapsed_s();
    const StepResult result = compute(batch, iteration, lr);
    if (parts_.ema != nullptr && result.updated()) {
      parts_.ema->update();
    }
    const double step_s = timer.elapsed_s();
    progress_.iteration += 1;
    progress_.images_seen += result.images;
    keep_place();
    const bool stopping = result.stop_requested && progress_.iteration < options_.max_iter;
    const StepReport report{.iteration = iteration,
                            .batch = batch,
                            .result = result,
                            .lr = lr,
                            .data_s = data_s,
                            .step_s = step_s,
                            .progress = progress_,
                            .last = stopping || progress_.iteration == options_.max_iter,
                            .stopping = stopping};
    for (Hook* hook : hooks_) {
      hook->after_step(report);
    }
    return stopping;
  }

  StepResult compute(const Batch& batch, std::int64_t iteration, double lr) {
    try {
      return train_step(parts_.detector, parts_.optimizer, parts_.communicator, batch,
                        {.lr = lr,
                         .accumulation_steps = options_.accumulation_steps,
                         .precision = parts_.precision,
                         .reducer = parts_.reducer,
                         .iteration = iteration,
                         .stop_requested = [] { return StopSignals::received() != nullptr; },
                         .is_deterministic = options_.is_deterministic,
                         .talks_in_model = options_.talks_in_model});
    } catch (CommunicationError& error) {
      error.add_where(fmt::format("iteration {}", iteration));
      throw;
    } catch (Error& error) {
      error.add_where(
          fmt::format("iteration {}, images {}", iteration, fmt::join(batch.images.paths, " ")));
      throw;
    }
  }

  const TrainParts& parts_;
  const LoopOptions& options_;
  const std::vector<Hook*>& hooks_;
  TrainProgress progress_;
  std::string place_;  ///< of the source, after the steps of progress_
};

}  // namespace

LoopResult train(const TrainParts& parts,
                 const LoopOptions& options,
                 const std::vector<Hook*>& hooks) {
  DETFORGE_CHECK(options.start.iteration < options.max_iter,
                 fmt::format("nothing to train: {} of {} iterations are done already",
                             options.start.iteration, options.max_iter),
                 "raise SOLVER.MAX_ITER to train longer");
  // LibTorch sets OpenMP's number of threads only when first asked for it, and oneDNN's sums depend
  // on that number: without this line the first steps of a process could differ, in the last bit,
  // from the same steps of another.
  at::get_num_threads();
  const StopSignals signals(options.second_signal_kills);
  parts.detector.train();
  if (parts.ema != nullptr && parts.ema->updates() == 0) {
    parts.ema->restart();  // weights were loaded after it was made
  }
  Loop loop(parts, options, hooks);
  try {
    return loop.run();
  } catch (const CommunicationError&) {
    if (options.rescue) {
      options.rescue(loop.progress(), loop.place());
    }
    throw;
  } catch (const std::exception& error) {
    parts.communicator.give_up(error.what());
    throw;
  }
}

}  // namespace detforge
