#include "detforge/train/step.h"

#include <cmath>

#include <fmt/format.h>
#include <torch/types.h>

#include "detforge/core/error.h"
#include "detforge/core/timer.h"

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

/// Reads the terms, averaged over ranks: a term that is not finite on one rank is so on all.
void record_losses(const LossMap& losses, Communicator& communicator, StepResult& result) {
  std::vector<Tensor> terms;
  for (const auto& [name, term] : losses) {
    terms.push_back(term.detach().reshape({}).to(at::kDouble));
  }
  Tensor means = torch::stack(terms);
  communicator.all_reduce_sum_(means);
  means /= static_cast<double>(communicator.world_size());
  for (std::size_t i = 0; i < losses.size(); ++i) {
    const double value = means[static_cast<std::int64_t>(i)].item<double>();
    result.losses.emplace_back(losses[i].first, value);
    result.total += value;
    if (!std::isfinite(value)) {
      result.nonfinite +=
          fmt::format("{}{} = {}", result.nonfinite.empty() ? "" : ", ", losses[i].first, value);
    }
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
    if (!std::isfinite(parameter.grad().sum().item<double>())) {
      names = names.empty() ? "the gradient of " + name : names + ", ...";
      if (names.ends_with("...")) {
        break;
      }
    }
  }
  return names.empty() ? "the norm of the gradients" : names;
}

}  // namespace

StepResult train_step(
    Detector& detector, Sgd& optimizer, Communicator& communicator, const Batch& batch, double lr) {
  StepResult result;
  Timer timer;
  optimizer.zero_grad();
  const LossMap losses = detector.losses(batch.images, batch.targets);
  const Tensor total = sum_of(losses);
  record_losses(losses, communicator, result);
  result.forward_s = timer.restart();
  if (!result.nonfinite.empty()) {
    return result;
  }
  total.backward();
  average_gradients(optimizer, communicator);
  result.backward_s = timer.restart();
  result.grad_norm = optimizer.gradient_norm();
  if (std::isfinite(result.grad_norm)) {
    optimizer.step(lr);
  } else {
    result.nonfinite = nonfinite_gradients(optimizer);
  }
  result.optimizer_s = timer.restart();
  return result;
}

}  // namespace detforge
