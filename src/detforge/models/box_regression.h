#pragma once

#include "detforge/models/box_coder.h"
#include "detforge/models/losses.h"

namespace detforge {

struct BoxRegressionOptions {
  BoxLossType type = BoxLossType::kSmoothL1;
  double smooth_l1_beta = 0.0;  ///< only for kSmoothL1
};

/// Predicted deltas of positive anchors or proposals, and where they should lead.
struct BoxRegressionPairs {
  Tensor deltas;     ///< [P,4] f32, predicted
  Tensor reference;  ///< [P,4] f32 xyxy, anchors or proposals
  Tensor gt_boxes;   ///< [P,4] f32 xyxy
};

/// Sum over pairs: smooth L1 between deltas, or an IoU loss between decoded boxes. P = 0 gives a
/// connected 0.
Tensor box_regression_loss_sum(const BoxRegressionPairs& pairs,
                               const BoxCoder& box_coder,
                               const BoxRegressionOptions& options);

}  // namespace detforge
