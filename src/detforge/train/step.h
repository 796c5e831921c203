#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "detforge/distributed/communicator.h"
#include "detforge/models/detector.h"
#include "detforge/structures/batch.h"
#include "detforge/train/optimizer.h"

namespace detforge {

/// What one training step computed.
struct StepResult {
  std::vector<std::pair<std::string, double>> losses;  ///< the detector's terms, means over ranks
  double total = 0;                                    ///< their sum
  double grad_norm = 0;  ///< L2 norm of all gradients before clipping; 0 if there was no backward
  std::string
      nonfinite;  ///< empty, or what was not finite: "loss_cls = nan, ..." or "the gradient of X"
  double forward_s = 0, backward_s = 0, optimizer_s = 0;  ///< seconds

  /// False: the parameters were left exactly as they were.
  bool updated() const { return nonfinite.empty(); }
};

/// The one training step of every mode: losses, sum, backward, mean gradient over ranks, clip,
/// update at rate `lr`. If a loss term or a gradient is not finite on any rank, no rank updates.
/// The detector must be in training mode. After an exception the parameters are unchanged, the
/// gradients undefined or partial.
StepResult train_step(
    Detector& detector, Sgd& optimizer, Communicator& communicator, const Batch& batch, double lr);

}  // namespace detforge
