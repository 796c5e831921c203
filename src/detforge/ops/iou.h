#pragma once

#include "detforge/core/tensor.h"

namespace detforge {

/// Areas of boxes [N,4] xyxy -> [N].
Tensor box_area(const Tensor& boxes);

/// Intersection over union of every pair: a [N,4], b [M,4] f32 xyxy -> [N,M] f32. Pairs without
/// overlap, and pairs of empty boxes, give 0 (never NaN).
Tensor pairwise_iou(const Tensor& a, const Tensor& b);

/// What pairwise_iou(gt_boxes, boxes) [G,N] says, without the matrix: all G * N overlaps are
/// computed, G * N / 512 numbers are kept for a while.
struct BestIou {
  Tensor iou;         ///< [N] f32, the highest of each box; 0 without ground truth
  Tensor gt_index;    ///< [N] i64, the first ground truth that has it; 0 without
  Tensor highest;     ///< [G] f32, the highest of each ground truth
  Tensor is_highest;  ///< [N] u8, 1 if the IoU with some ground truth is its highest, above 0
};
BestIou best_iou(const Tensor& gt_boxes, const Tensor& boxes);

}  // namespace detforge
