#pragma once

#include "detforge/core/tensor.h"

namespace detforge {

/// All losses are f32 scalars with gradient with respect to the first argument. Over zero elements
/// they are 0 and still connected to it, so that every parameter gets a gradient.

/// Sum of |d| - beta/2 where |d| >= beta, else d^2 / (2 beta), with d = input - target; beta = 0:
/// sum of |d|. Ref: Girshick, Fast R-CNN, arXiv:1504.08083, Eq. 3.
Tensor smooth_l1_loss_sum(const Tensor& input, const Tensor& target, double beta);

/// Sum of binary cross entropies of logits [N] against targets [N] (0 or 1), in the stable form.
Tensor sigmoid_bce_loss_sum(const Tensor& logits, const Tensor& targets);

/// Sum of cross entropies of logits [N,C] against classes [N] i64.
Tensor softmax_cross_entropy_loss_sum(const Tensor& logits, const Tensor& classes);

/// Losses of boxes [N,4] xyxy against targets [N,4] xyxy, per pair [N]; boxes with x2 >= x1, y2 >=
/// y1. Ref: Rezatofighi et al., arXiv:1902.09630 (GIoU); Zheng et al., arXiv:1911.08287 (DIoU,
/// CIoU; its trade-off factor alpha carries no gradient). eps = 1e-7 guards the divisions, as in
/// fvcore.
Tensor giou_loss(const Tensor& boxes, const Tensor& targets);
Tensor diou_loss(const Tensor& boxes, const Tensor& targets);
Tensor ciou_loss(const Tensor& boxes, const Tensor& targets);

/// What box regression minimises.
enum class BoxLossType { kSmoothL1, kGiou, kDiou, kCiou };

/// Sum of the IoU loss `type` (not kSmoothL1) over pairs of boxes.
Tensor iou_loss_sum(const Tensor& boxes, const Tensor& targets, BoxLossType type);

}  // namespace detforge
