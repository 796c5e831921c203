#pragma once

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "detforge/core/error.h"
#include "detforge/distributed/communicator.h"
#include "detforge/models/detector.h"
#include "detforge/train/step.h"

/// What a training step does with losses between the detector and backward(): shared by the ways to
/// compute gradients.
namespace detforge {

/// Losses of a rank's part of a batch, piece by piece; not yet those of all ranks.
struct PartialLosses {
  std::vector<std::string> names = {};
  std::vector<double> sums = {};    ///< value times count, or the value itself, of each term
  std::vector<double> counts = {};  ///< of each term; of a plain sum kSum
  std::string failure = {};         ///< why this rank has no losses
  bool talks_in_model = false;      ///< see StepOptions

  static constexpr double kSum = std::numeric_limits<double>::quiet_NaN();
  void add(const LossMap& losses);
};

/// Runs what may meet NaN or infinity (Error::Kind::kNonFinite). The other ranks must not wait for
/// a rank that has: it goes on, without losses.
template <typename Work>
void guarded(PartialLosses& losses, const Work& work) {
  try {
    work();
  } catch (const Error& error) {
    if (error.kind() != Error::Kind::kNonFinite || losses.talks_in_model) {
      throw;
    }
    losses.failure = fmt::format("{} ({})", error.message(), error.where());
  }
}

/// The one talk of a step before its backward pass: the losses of all ranks, whether one has none,
/// whether one was asked to stop, how many images there are. Puts them into `result`; returns what
/// each term is a mean over on all ranks together, at least 1, or kSum.
std::vector<double> exchange_losses(const PartialLosses& own,
                                    Communicator& communicator,
                                    const std::function<bool()>& stop_requested,
                                    StepResult& result);

/// The terms' sum as part of the whole batch's loss, whose terms are means over `counts`: these add
/// up over pieces and ranks. Times the loss scale.
Tensor part_of_whole(const LossMap& losses, const std::vector<double>& counts, double loss_scale);

}  // namespace detforge
