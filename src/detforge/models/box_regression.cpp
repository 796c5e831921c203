#include "detforge/models/box_regression.h"

#include <torch/types.h>

namespace detforge {

Tensor box_regression_loss_sum(const BoxRegressionPairs& pairs,
                               const BoxCoder& box_coder,
                               const BoxRegressionOptions& options) {
  if (options.type == BoxLossType::kSmoothL1) {
    return smooth_l1_loss_sum(pairs.deltas, box_coder.encode(pairs.reference, pairs.gt_boxes),
                              options.smooth_l1_beta);
  }
  return iou_loss_sum(box_coder.decode(pairs.deltas, pairs.reference), pairs.gt_boxes,
                      options.type);
}

}  // namespace detforge
