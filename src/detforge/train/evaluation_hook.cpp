#include "detforge/train/evaluation_hook.h"

#include <exception>
#include <utility>

#include "detforge/core/error.h"
#include "detforge/core/log.h"
#include "detforge/distributed/communicator.h"

namespace detforge {

EvaluationHook::EvaluationHook(Evaluate evaluate,
                               std::int64_t period,
                               Detector& detector,
                               Checkpointer& checkpointer,
                               TrainingLog* log,
                               Ema* ema)
    : evaluate_(std::move(evaluate)),
      period_(period),
      detector_(detector),
      checkpointer_(checkpointer),
      log_(log),
      ema_(ema) {}

EvaluationResult EvaluationHook::evaluate(std::int64_t iteration) const {
  if (ema_ == nullptr) {
    return evaluate_(iteration);
  }
  const Ema::Applied averaged(*ema_);
  return evaluate_(iteration);
}

void EvaluationHook::after_step(const StepReport& report) {
  const bool due = report.last || (period_ > 0 && report.progress.iteration % period_ == 0);
  if (!due || report.stopping) {
    return;
  }
  EvaluationResult result;
  detector_.eval();
  try {
    result = evaluate(report.progress.iteration);
  } catch (const CommunicationError&) {
    throw;  // training cannot go on
  } catch (const std::exception& error) {
    detector_.train();
    if (report.last) {
      throw;  // the weights are safe: the checkpoint hook came before
    }
    log::error("EVALUATION FAILED after {} steps; training goes on: {}", report.progress.iteration,
               error.what());
    return;
  }
  detector_.train();
  if (log_ != nullptr) {
    log_->record(report.iteration, result.values);
  }
  if (!result.metric) {
    return;
  }
  try {
    if (checkpointer_.save_best(report.progress, *result.metric)) {
      log::info("best so far: {:.4f} after {} steps, saved as best.pth", *result.metric,
                report.progress.iteration);
    }
  } catch (const Error& error) {
    log::error("BEST CHECKPOINT NOT SAVED at iteration {}: {}", report.iteration, error.what());
  }
}

}  // namespace detforge
