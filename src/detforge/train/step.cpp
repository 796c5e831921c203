#include "detforge/train/step.h"

#include <cmath>
#include <span>

#include <torch/types.h>

#include "detforge/core/error.h"
#include "detforge/core/timer.h"
#include "detforge/models/kept_buffers.h"
#include "detforge/train/image_by_image.h"
#include "detforge/train/model_state.h"
#include "detforge/train/split_batch.h"
#include "detforge/train/step_losses.h"

namespace detforge {
namespace {

/// What the losses of all parts of all ranks are divided by.
LossCounts whole_counts(Detector& detector,
                        Communicator& communicator,
                        std::span<const Batch> parts,
                        PartialLosses& losses) {
  LossCounts own;
  guarded(losses, [&] {
    for (const Batch& part : parts) {
      own += detector.loss_counts(part.images, part.targets);
    }
  });
  Tensor counts = torch::tensor({own.images, own.rois, own.masks}, torch::kLong);
  communicator.all_reduce_sum_(counts);
  const auto* sums = counts.data_ptr<std::int64_t>();
  return {.images = sums[0], .rois = sums[1], .masks = sums[2]};
}

/// Losses and gradients of the batch, part by part; the last one's gradients are summed over ranks
/// as they come.
void accumulate_gradients(Detector& detector,
                          Communicator& communicator,
                          std::span<const Batch> parts,
                          const StepOptions& options,
                          StepResult& result) {
  Timer timer;
  PartialLosses losses{.talks_in_model = options.talks_in_model};
  LossCounts counts;
  const bool is_cut = options.accumulation_steps > 1;
  if (is_cut) {
    counts = whole_counts(detector, communicator, parts, losses);
  }
  LossMap last;
  for (std::size_t i = 0; i < parts.size() && losses.failure.empty(); ++i) {
    guarded(losses, [&] {
      last = detector.losses(parts[i].images, parts[i].targets, is_cut ? &counts : nullptr);
    });
    if (!losses.failure.empty()) {
      break;
    }
    if (is_cut) {  // then they are parts of sums
      for (LossTerm& term : last) {
        term.count.reset();
      }
    }
    losses.add(last);
    result.forward_s += timer.restart();
    if (i + 1 < parts.size()) {
      part_of_whole(last, losses.counts, result.loss_scale).backward();
      result.backward_s += timer.restart();
    }
  }
  const std::vector<double> whole =
      exchange_losses(losses, communicator, options.stop_requested, result);
  result.forward_s += timer.restart();
  if (!result.nonfinite.empty()) {
    return;
  }
  communicator.enter("backward", options.iteration);
  if (options.reducer != nullptr) {
    options.reducer->start(result.loss_scale);
  }
  part_of_whole(last, whole, result.loss_scale).backward();
  last.clear();
  if (options.reducer != nullptr) {
    communicator.enter("gradient sum", options.iteration);
    result.reduction = options.reducer->finish();
  }
  result.backward_s += timer.restart();
}

std::string nonfinite_gradients(const Sgd& optimizer) {
  std::string names;
  for (const auto& [name, parameter] : optimizer.parameters()) {
    if (!is_finite(parameter.grad())) {
      names = names.empty() ? "the gradient of " + name : names + ", ...";
      if (names.ends_with("...")) {
        break;
      }
    }
  }
  return names.empty() ? "the norm of the gradients" : names;
}

/// Losses, gradients and, if all are finite, the update.
void compute_step(Detector& detector,
                  Sgd& optimizer,
                  Communicator& communicator,
                  const Batch& batch,
                  const StepOptions& options,
                  StepResult& result) {
  optimizer.zero_grad();
  communicator.enter("forward", options.iteration);
  if (options.is_deterministic) {
    image_by_image_gradients(detector, optimizer, communicator, batch, options, result);
  } else if (options.accumulation_steps == 1) {
    accumulate_gradients(detector, communicator, {&batch, 1}, options, result);
  } else {
    accumulate_gradients(detector, communicator, split_batch(batch, options.accumulation_steps),
                         options, result);
  }
  if (!result.nonfinite.empty()) {
    return;
  }
  communicator.enter("update", options.iteration);
  Timer timer;
  const GradientNorm norm = optimizer.gradient_norm(result.loss_scale);
  result.grad_norm = norm.total;
  if (std::isfinite(norm.total)) {
    optimizer.step(options.lr, norm);
  } else {
    result.nonfinite = nonfinite_gradients(optimizer);
  }
  result.optimizer_s = timer.restart();
}

}  // namespace

StepResult train_step(Detector& detector,
                      Sgd& optimizer,
                      Communicator& communicator,
                      const Batch& batch,
                      const StepOptions& options) {
  DETFORGE_CHECK(communicator.world_size() == 1 || options.reducer != nullptr,
                 "a step of several ranks has nobody to sum its gradients",
                 "this is a bug: give it a GradientReducer");
  StepResult result;
  result.images = batch.images.count();
  if (options.precision != nullptr) {
    result.loss_scale = options.precision->scaler().scale();
  }
  const KeptBuffers kept(detector);
  try {
    compute_step(detector, optimizer, communicator, batch, options, result);
  } catch (...) {
    kept.restore();
    throw;
  }
  if (!result.updated()) {
    kept.restore();
  }
  if (options.precision != nullptr) {
    options.precision->scaler().update(result.updated());
  }
  return result;
}

}  // namespace detforge
