#pragma once

#include "detforge/core/tensor.h"

namespace detforge {

/// Areas of boxes [N,4] xyxy -> [N].
Tensor box_area(const Tensor& boxes);

/// Intersection over union of every pair: a [N,4], b [M,4] f32 xyxy -> [N,M] f32. Pairs without
/// overlap, and pairs of empty boxes, give 0 (never NaN).
Tensor pairwise_iou(const Tensor& a, const Tensor& b);

}  // namespace detforge
