#include "detforge/train/step_losses.h"

#include <algorithm>
#include <cmath>

#include <torch/types.h>

namespace detforge {
namespace {

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

}  // namespace

void PartialLosses::add(const LossMap& losses) {
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

std::vector<double> exchange_losses(const PartialLosses& own,
                                    Communicator& communicator,
                                    const std::function<bool()>& stop_requested,
                                    StepResult& result) {
  // Of one size whatever happened on this rank: which calls are made must not depend on data.
  constexpr std::size_t kMostTerms = 16, kHead = 3;
  DETFORGE_CHECK(own.sums.size() <= kMostTerms,
                 fmt::format("the detector has {} loss terms", own.sums.size()),
                 "this is a bug in the model: at most 16 are known here");
  const bool is_whole = own.failure.empty();
  Tensor table = torch::zeros({kHead + 2 * kMostTerms}, torch::kDouble);
  double* values = table.data_ptr<double>();
  values[0] = stop_requested && stop_requested() ? 1 : 0;
  values[1] = is_whole ? 0 : 1;
  values[2] = static_cast<double>(result.images);
  for (std::size_t i = 0; i < own.sums.size() && is_whole; ++i) {
    values[kHead + i] = own.sums[i];
    values[kHead + kMostTerms + i] = std::isnan(own.counts[i]) ? 0 : own.counts[i];
  }
  communicator.all_reduce_sum_(table);
  result.stop_requested = values[0] > 0;
  result.images = static_cast<std::int64_t>(values[2]);
  std::vector<double> counts;
  for (std::size_t i = 0; i < own.sums.size() && is_whole; ++i) {
    const bool is_sum = std::isnan(own.counts[i]);
    counts.push_back(is_sum ? PartialLosses::kSum : std::max(values[kHead + kMostTerms + i], 1.0));
    const double value = values[1] > 0 ? std::numeric_limits<double>::quiet_NaN()
                                       : values[kHead + i] / (is_sum ? 1 : counts.back());
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
  return counts;
}

Tensor part_of_whole(const LossMap& losses, const std::vector<double>& counts, double loss_scale) {
  Tensor total;
  for (std::size_t i = 0; i < losses.size(); ++i) {
    const LossTerm& term = losses[i];
    const bool is_all = !term.count || std::isnan(counts[i]) || *term.count == counts[i];
    const Tensor part = is_all ? term.value : term.value * (*term.count / counts[i]);
    total = i == 0 ? part : total + part;
  }
  return loss_scale == 1.0 ? total : total * loss_scale;
}

}  // namespace detforge
