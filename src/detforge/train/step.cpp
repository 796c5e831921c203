#include "detforge/train/step.h"

#include <cmath>
#include <limits>
#include <span>

#include <fmt/format.h>
#include <torch/types.h>

#include "detforge/core/error.h"
#include "detforge/core/timer.h"
#include "detforge/models/kept_buffers.h"
#include "detforge/train/model_state.h"
#include "detforge/train/split_batch.h"

namespace detforge {
namespace {

Tensor sum_of(const LossMap& losses) {
  DETFORGE_CHECK(!losses.empty(), "the detector returned no loss", "this is a bug in the model");
  Tensor total = losses.front().second;
  for (std::size_t i = 1; i < losses.size(); ++i) {
    total = total + losses[i].second;
  }
  return total;
}

/// Adds the terms, averaged over ranks, to those of the parts before: a term that is not finite on
/// one rank is so on all.
void record_losses(const LossMap& losses, Communicator& communicator, StepResult& result) {
  std::vector<Tensor> terms;
  for (const auto& [name, term] : losses) {
    terms.push_back(term.detach().reshape({}).to(at::kDouble));
  }
  Tensor means = torch::stack(terms);
  communicator.all_reduce_sum_(means);
  means /= static_cast<double>(communicator.world_size());
  result.losses.resize(losses.size());
  for (std::size_t i = 0; i < losses.size(); ++i) {
    const double value = means[static_cast<std::int64_t>(i)].item<double>();
    auto& [name, sum] = result.losses[i];
    name = losses[i].first;
    sum += value;
    result.total += value;
    if (!std::isfinite(value)) {
      result.nonfinite +=
          fmt::format("{}{} = {}", result.nonfinite.empty() ? "" : ", ", name, value);
    }
  }
}

/// What the losses of parts are divided by; not asked for where the batch is one part.
LossCounts counts_of(Detector& detector, std::span<const Batch> parts) {
  LossCounts whole;
  for (const Batch& part : parts) {
    whole += detector.loss_counts(part.images, part.targets);
  }
  return whole;
}

/// Losses and gradients of the whole batch, part by part. Stops at the first part whose losses are
/// not finite.
void accumulate_gradients(Detector& detector,
                          Communicator& communicator,
                          std::span<const Batch> parts,
                          StepResult& result) {
  Timer timer;
  const LossCounts counts = parts.size() > 1 ? counts_of(detector, parts) : LossCounts{};
  const LossCounts* whole = parts.size() > 1 ? &counts : nullptr;
  for (const Batch& part : parts) {
    const LossMap losses = detector.losses(part.images, part.targets, whole);
    const Tensor total = sum_of(losses);
    record_losses(losses, communicator, result);
    result.forward_s += timer.restart();
    if (!result.nonfinite.empty()) {
      return;
    }
    (result.loss_scale == 1.0 ? total : total * result.loss_scale).backward();
    result.backward_s += timer.restart();
  }
}

void average_gradients(Sgd& optimizer, Communicator& communicator) {
  if (communicator.world_size() == 1) {
    return;  // saves a pass over all gradients
  }
  for (auto& [name, parameter] : optimizer.parameters()) {
    Tensor gradient = parameter.grad();
    communicator.all_reduce_sum_(gradient);
    gradient /= static_cast<double>(communicator.world_size());
  }
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
  if (options.accumulation_steps == 1) {
    accumulate_gradients(detector, communicator, {&batch, 1}, result);
  } else {
    accumulate_gradients(detector, communicator, split_batch(batch, options.accumulation_steps),
                         result);
  }
  if (!result.nonfinite.empty()) {
    return;
  }
  Timer timer;
  average_gradients(optimizer, communicator);
  result.backward_s += timer.restart();
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
  StepResult result;
  if (options.precision != nullptr) {
    result.loss_scale = options.precision->scaler().scale();
  }
  const KeptBuffers kept(detector);
  try {
    compute_step(detector, optimizer, communicator, batch, options, result);
  } catch (const Error& error) {
    if (error.kind() != Error::Kind::kNonFinite) {
      throw;
    }
    result.nonfinite = fmt::format("{} ({})", error.message(), error.where());
    result.total = std::numeric_limits<double>::quiet_NaN();
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
