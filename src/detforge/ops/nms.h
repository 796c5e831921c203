#pragma once

#include "detforge/core/tensor.h"

namespace detforge {

/// Greedy non-maximum suppression: keeps the best box, drops boxes whose IoU with a kept one is
/// above `iou_threshold`.
///   boxes  [N,4] f32 xyxy, pixels      scores [N] f32, any range
///   return [M] i64 indices into boxes, by falling score; ties keep input order, so the result is
///   deterministic
/// N = 0 gives an empty result. Boxes of zero area overlap nothing. No gradient. Always computed in
/// f32. Throws Error if shapes or dtypes do not fit. Ref: Ren et al., Faster R-CNN,
/// arXiv:1506.01497, sec. 3.3.
Tensor nms(const Tensor& boxes, const Tensor& scores, double iou_threshold);

/// nms() within each group only (class or pyramid level); boxes of different groups never suppress
/// each other.
///   groups [N] i64, any values
///   max_keep  stop after this many kept boxes over all groups (the best ones); -1: no limit
///   return as nms(), by falling score over all groups
/// Group ids are compared; the boxes are not shifted, so the result does not depend on image size.
Tensor batched_nms(const Tensor& boxes,
                   const Tensor& scores,
                   const Tensor& groups,
                   double iou_threshold,
                   std::int64_t max_keep = -1);

}  // namespace detforge
