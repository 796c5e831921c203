#include "detforge/train/loop.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include "detforge/core/error.h"
#include "detforge/core/log.h"
#include "detforge/core/timer.h"
#include "detforge/train/signals.h"

namespace detforge {

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
  const StopSignals signals;
  TrainProgress progress = options.start;
  parts.detector.train();
  if (parts.ema != nullptr && parts.ema->updates() == 0) {
    parts.ema->restart();  // weights were loaded after it was made
  }
  while (progress.iteration < options.max_iter) {
    const std::int64_t iteration = progress.iteration;
    const double lr = parts.schedule.lr(iteration);
    const Timer timer;
    const Batch batch = parts.source.next();
    const double data_s = timer.elapsed_s();
    StepResult result;
    try {
      result = train_step(parts.detector, parts.optimizer, parts.communicator, batch,
                          {.lr = lr,
                           .accumulation_steps = options.accumulation_steps,
                           .precision = parts.precision});
    } catch (Error& error) {
      error.add_where(
          fmt::format("iteration {}, images {}", iteration, fmt::join(batch.images.paths, " ")));
      throw;
    }
    if (parts.ema != nullptr && result.updated()) {
      parts.ema->update();
    }
    const double step_s = timer.elapsed_s();
    progress.iteration += 1;
    progress.images_seen += batch.images.count() * parts.communicator.world_size();
    const bool stopping =
        StopSignals::received() != nullptr && progress.iteration < options.max_iter;
    const StepReport report{.iteration = iteration,
                            .batch = batch,
                            .result = result,
                            .lr = lr,
                            .data_s = data_s,
                            .step_s = step_s,
                            .progress = progress,
                            .last = stopping || progress.iteration == options.max_iter,
                            .stopping = stopping};
    for (Hook* hook : hooks) {
      hook->after_step(report);
    }
    if (stopping) {
      log::info("{}: stopped cleanly after iteration {}; continue with --resume",
                StopSignals::received(), iteration);
      return {StopReason::kSignal, progress};
    }
  }
  return {StopReason::kFinished, progress};
}

}  // namespace detforge
