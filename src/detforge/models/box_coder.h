#pragma once

#include <array>

#include "detforge/core/tensor.h"
#include "detforge/structures/image.h"

namespace detforge {

/// Boxes as deltas (dx, dy, dw, dh) from a reference box (anchor or proposal), and back:
///   dx = wx * (x_target - x_reference) / width_reference      dw = ww * log(width_target /
///   width_reference)
/// with centres x, y. dw and dh are capped at log(1000 / 16) when decoding.
/// Ref: Girshick, Fast R-CNN, arXiv:1504.08083; numerics as Detectron2's Box2BoxTransform.
class BoxCoder {
 public:
  /// `weights` (wx, wy, ww, wh): (1,1,1,1) for the RPN, (10,10,5,5) for the box head.
  explicit BoxCoder(std::array<double, 4> weights);

  /// reference, target [N,4] f32 xyxy -> deltas [N,4]. Throws Error if a reference box has no area.
  Tensor encode(const Tensor& reference, const Tensor& target) const;

  /// deltas [N,k*4] (k classes), reference [N,4] -> boxes [N,k*4] f32 xyxy, not clipped.
  /// Differentiable with respect to deltas.
  Tensor decode(const Tensor& deltas, const Tensor& reference) const;

 private:
  std::array<double, 4> weights_;
};

/// Clips boxes [...,4] xyxy to [0, width] x [0, height]. Returns a new tensor.
Tensor clip_boxes(const Tensor& boxes, ImageSize size);

/// Mask [N] bool of boxes [N,4] that are wider and higher than `threshold`.
Tensor nonempty_boxes(const Tensor& boxes, double threshold = 0.0);

}  // namespace detforge
