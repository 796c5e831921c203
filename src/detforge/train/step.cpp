#include "detforge/train/step.h"

#include <algorithm>
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

/// Losses of a rank's part of a batch, not yet those of all ranks.
struct PartialLosses {
  std::vector<LossMap> parts;  ///< whose backward pass is still to come
  std::vector<std::string> names;
  std::vector<double> sums;    ///< value times count, or the value itself, of each term
  std::vector<double> counts;  ///< of each term; of a plain sum NaN
  std::string failure;         ///< why this rank has no losses

  void add(const LossMap& losses) {
    DETFORGE_CHECK(!losses.empty(), "the detector returned no loss", "this is a bug in the model");
    names.resize(losses.size());
    sums.resize(losses.size());
    counts.resize(losses.size());
    for (std::size_t i = 0; i < losses.size(); ++i) {
      const double value = losses[i].value.detach().item<double>();
      names[i] = losses[i].name;
      sums[i] += value * losses[i].count.value_or(1);
      counts[i] = losses[i].count ? counts[i] + *losses[i].count : kSum;
    }
  }
  static constexpr double kSum = std::numeric_limits<double>::quiet_NaN();
};

/// Runs what may meet NaN or infinity. The other ranks must not wait for a rank that has: it goes
/// on, without losses.
template <typename Work>
void guarded(PartialLosses& losses, const Work& work) {
  try {
    work();
  } catch (const Error& error) {
    if (error.kind() != Error::Kind::kNonFinite) {
      throw;
    }
    losses.failure = fmt::format("{} ({})", error.message(), error.where());
  }
}

/// What is said about terms that are not finite: "loss_cls = nan, ...".
std::string nonfinite_terms(const StepResult& result) {
  std::string text;
  for (const auto& [name, value] : result.losses) {
    if (!std::isfinite(value)) {
      text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", name, value);
    }
  }
  return text;
}

/// Rank 0 writes the log: it hears what the others met. Called by all or by none.
std::string tell_rank_zero(Communicator& communicator, const std::string& own) {
  const std::vector<std::string> all = communicator.gather(own);
  std::string text;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (!all[rank].empty()) {
      text += fmt::format("{}{}{}", text.empty() ? "" : "; ",
                          all.size() == 1 ? "" : fmt::format("rank {}: ", rank), all[rank]);
    }
  }
  return !text.empty() ? text : !own.empty() ? own : "the losses of another rank";
}

/// The one talk of a step before its backward pass: the losses of all ranks, whether one has none,
/// whether one was asked to stop. Puts them into `result` and returns what each term of this rank
/// is multiplied by, so that the gradients of all ranks add up to those of the whole batch.
std::vector<double> exchange_losses(const PartialLosses& own,
                                    Communicator& communicator,
                                    bool stop_requested,
                                    StepResult& result) {
  // Of one size whatever happened on this rank: which calls are made must not depend on data.
  constexpr std::size_t kMostTerms = 16, kHead = 3;
  DETFORGE_CHECK(own.sums.size() <= kMostTerms,
                 fmt::format("the detector has {} loss terms", own.sums.size()),
                 "this is a bug in the model: at most 16 are known here");
  const bool is_whole = own.failure.empty();
  Tensor table = torch::zeros({kHead + 2 * kMostTerms}, torch::kDouble);
  double* values = table.data_ptr<double>();
  values[0] = stop_requested ? 1 : 0;
  values[1] = is_whole ? 0 : 1;
  values[2] = static_cast<double>(result.images);
  for (std::size_t i = 0; i < own.sums.size() && is_whole; ++i) {
    values[kHead + i] = own.sums[i];
    values[kHead + kMostTerms + i] = std::isnan(own.counts[i]) ? 0 : own.counts[i];
  }
  communicator.all_reduce_sum_(table);
  result.stop_requested = values[0] > 0;
  result.images = static_cast<std::int64_t>(values[2]);
  std::vector<double> shares;
  for (std::size_t i = 0; i < own.sums.size() && is_whole; ++i) {
    const double count =
        std::isnan(own.counts[i]) ? 1 : std::max(values[kHead + kMostTerms + i], 1.0);
    const double own_count = std::isnan(own.counts[i]) ? 1 : own.counts[i];
    const double value =
        values[1] > 0 ? std::numeric_limits<double>::quiet_NaN() : values[kHead + i] / count;
    shares.push_back(own_count == count ? 1 : own_count / count);
    result.losses.emplace_back(own.names[i], value);
    result.total += value;
  }
  if (values[1] > 0) {
    result.total = std::numeric_limits<double>::quiet_NaN();
  }
  result.is_own_fault = !is_whole || std::any_of(own.sums.begin(), own.sums.end(),
                                                 [](double sum) { return !std::isfinite(sum); });
  if (!std::isfinite(result.total)) {
    const std::string text = is_whole ? nonfinite_terms(result) : own.failure;
    result.nonfinite = tell_rank_zero(communicator, result.is_own_fault ? text : "");
  }
  return shares;
}

Tensor weighted_sum(const LossMap& losses, const std::vector<double>& shares, double loss_scale) {
  Tensor total;
  for (std::size_t i = 0; i < losses.size(); ++i) {
    const Tensor term = shares[i] == 1 ? losses[i].value : losses[i].value * shares[i];
    total = i == 0 ? term : total + term;
  }
  return loss_scale == 1.0 ? total : total * loss_scale;
}

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
  PartialLosses losses;
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
      const std::vector<double> as_they_are(last.size(), 1.0);
      weighted_sum(last, as_they_are, result.loss_scale).backward();
      result.backward_s += timer.restart();
    }
  }
  const std::vector<double> shares =
      exchange_losses(losses, communicator, options.stop_requested, result);
  result.forward_s += timer.restart();
  if (!result.nonfinite.empty()) {
    return;
  }
  communicator.enter("backward", options.iteration);
  if (options.reducer != nullptr) {
    options.reducer->start(result.loss_scale);
  }
  weighted_sum(last, shares, result.loss_scale).backward();
  last.clear();
  if (options.reducer != nullptr) {
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
  if (options.accumulation_steps == 1) {
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
