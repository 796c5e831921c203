#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "detforge/distributed/communicator.h"
#include "detforge/distributed/gradient_reducer.h"
#include "detforge/models/detector.h"
#include "detforge/structures/batch.h"
#include "detforge/train/optimizer.h"
#include "detforge/train/precision.h"

namespace detforge {

struct StepOptions {
  double lr = 0;
  /// Parts that the batch is worked through in, one after the other: so much less memory for
  /// activations. More than the batch has images: one part an image.
  std::int64_t accumulation_steps = 1;
  Precision* precision = nullptr;      ///< whose loss scale is used and adapted; null: all is f32
  GradientReducer* reducer = nullptr;  ///< of the optimizer's parameters; needed by several ranks
  std::int64_t iteration = -1;         ///< for who asks what this rank is doing
  std::function<bool()> stop_requested = {};  ///< whether this rank was told to stop after the step
  /// The same bits for any power of two of ranks: gradients are computed image by image, of images
  /// padded to the largest of the step, and added in the order of TreeSum.
  bool is_deterministic = false;
  /// Ranks talk within the model (SyncBN): one that stops in the middle of it, at a NaN, cannot
  /// skip the step with the others, and throws.
  bool talks_in_model = false;
};

/// What one training step computed.
struct StepResult {
  std::int64_t images = 0;  ///< of all ranks
  std::vector<std::pair<std::string, double>>
      losses;             ///< the detector's terms, of the images of all ranks
  double total = 0;       ///< their sum
  double grad_norm = 0;   ///< L2 norm of all true gradients, before clipping; 0 without backward
  double loss_scale = 1;  ///< that the gradients were computed with
  std::string
      nonfinite;  ///< empty, or what was not finite: "loss_cls = nan, ..." or "the gradient of X"
  bool is_own_fault = false;                              ///< losses of this rank were not finite
  bool stop_requested = false;                            ///< of any rank
  double forward_s = 0, backward_s = 0, optimizer_s = 0;  ///< seconds, over all parts
  ReductionTimes reduction;                               ///< of the backward pass

  /// False: the parameters were left exactly as they were.
  bool updated() const { return nonfinite.empty(); }
};

/// The one training step of every mode: losses, sum, scale, backward, sum of gradients over ranks,
/// unscale and finite check, clip, update. If a loss term or a gradient is not finite on any rank,
/// or the detector throws an Error of kNonFinite, no rank updates: weights, momentum and buffers
/// (batch norm's statistics) are bit for bit what they were, and a dynamic loss scale is halved.
/// The detector must be in training mode. After an exception (CommunicationError too) parameters
/// and buffers are unchanged, the gradients undefined or partial.
///
/// Ranks have parts of one batch, of any sizes: each loss term is divided by what it is a mean over
/// in the images of all ranks, so that W ranks take the step of one rank with all the images. Batch
/// norm in training mode is the exception, unless it is SyncBN.
///
/// Accumulation changes memory and time only: images, padding and random numbers stay those of the
/// whole batch, and every loss is divided by the numbers of the whole batch, which
/// Detector::loss_counts() finds out beforehand. Parts add up to the losses and gradients of the
/// whole but for rounding. Batch norm in training mode is the exception: its statistics are those
/// of each part.
///   train_step(detector, optimizer, communicator, batch, {.lr = 0.01, .accumulation_steps = 2});
StepResult train_step(Detector& detector,
                      Sgd& optimizer,
                      Communicator& communicator,
                      const Batch& batch,
                      const StepOptions& options);

}  // namespace detforge
