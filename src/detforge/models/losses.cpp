#include "detforge/models/losses.h"

#include <numbers>

#include <ATen/core/Reduction.h>
#include <torch/types.h>

#include "detforge/core/error.h"

namespace detforge {
namespace {

constexpr double kEps = 1e-7;

struct Corners {
  Tensor x1, y1, x2, y2;
  explicit Corners(const Tensor& boxes)
      : x1(boxes.select(1, 0)),
        y1(boxes.select(1, 1)),
        x2(boxes.select(1, 2)),
        y2(boxes.select(1, 3)) {}
  Corners(Tensor x1_, Tensor y1_, Tensor x2_, Tensor y2_)
      : x1(std::move(x1_)), y1(std::move(y1_)), x2(std::move(x2_)), y2(std::move(y2_)) {}
  Tensor width() const { return x2 - x1; }
  Tensor height() const { return y2 - y1; }
  Tensor area() const { return width() * height(); }
};

Tensor intersection_area(const Corners& a, const Corners& b) {
  const Tensor width = torch::min(a.x2, b.x2) - torch::max(a.x1, b.x1);
  const Tensor height = torch::min(a.y2, b.y2) - torch::max(a.y1, b.y1);
  const Tensor overlap = (width > 0).logical_and(height > 0);
  return torch::where(overlap, width * height, torch::zeros_like(width));
}

Corners enclosing_box(const Corners& a, const Corners& b) {
  return {torch::min(a.x1, b.x1), torch::min(a.y1, b.y1), torch::max(a.x2, b.x2),
          torch::max(a.y2, b.y2)};
}

struct IouTerms {
  Tensor iou;
  Tensor centre_distance;  // squared, over the squared diagonal of the enclosing box
};

IouTerms distance_iou_terms(const Corners& a, const Corners& b) {
  const Tensor intersection = intersection_area(a, b);
  const Tensor iou = intersection / (a.area() + b.area() - intersection + kEps);
  const Corners hull = enclosing_box(a, b);
  const Tensor diagonal = hull.width().square() + hull.height().square() + kEps;
  const Tensor dx = (a.x2 + a.x1) / 2 - (b.x1 + b.x2) / 2;
  const Tensor dy = (a.y2 + a.y1) / 2 - (b.y1 + b.y2) / 2;
  return {iou, (dx.square() + dy.square()) / diagonal};
}

}  // namespace

Tensor smooth_l1_loss_sum(const Tensor& input, const Tensor& target, double beta) {
  const Tensor difference = (input - target).abs();
  if (beta < 1e-5) {  // the quadratic part would divide by (almost) zero
    return difference.sum();
  }
  return torch::where(difference < beta, 0.5 * difference.square() / beta, difference - 0.5 * beta)
      .sum();
}

Tensor sigmoid_bce_loss_sum(const Tensor& logits, const Tensor& targets) {
  return at::binary_cross_entropy_with_logits(logits, targets, /*weight=*/{}, /*pos_weight=*/{},
                                              at::Reduction::Sum);
}

Tensor softmax_cross_entropy_loss_sum(const Tensor& logits, const Tensor& classes) {
  return logits.log_softmax(1).gather(1, classes.unsqueeze(1)).neg().sum();
}

Tensor giou_loss(const Tensor& boxes, const Tensor& targets) {
  const Corners a(boxes);
  const Corners b(targets);
  const Tensor intersection = intersection_area(a, b);
  const Tensor union_area = a.area() + b.area() - intersection;
  const Tensor hull = enclosing_box(a, b).area();
  return 1 - (intersection / (union_area + kEps) - (hull - union_area) / (hull + kEps));
}

Tensor diou_loss(const Tensor& boxes, const Tensor& targets) {
  const IouTerms terms = distance_iou_terms(Corners(boxes), Corners(targets));
  return 1 - terms.iou + terms.centre_distance;
}

Tensor ciou_loss(const Tensor& boxes, const Tensor& targets) {
  constexpr double kFactor = 4.0 / (std::numbers::pi * std::numbers::pi);
  const Corners a(boxes);
  const Corners b(targets);
  const IouTerms terms = distance_iou_terms(a, b);
  const Tensor aspect =
      kFactor * ((b.width() / b.height()).atan() - (a.width() / a.height()).atan()).square();
  const Tensor alpha = (aspect / (1 - terms.iou + aspect + kEps)).detach();
  return 1 - terms.iou + terms.centre_distance + alpha * aspect;
}

Tensor iou_loss_sum(const Tensor& boxes, const Tensor& targets, BoxLossType type) {
  switch (type) {
    case BoxLossType::kGiou:
      return giou_loss(boxes, targets).sum();
    case BoxLossType::kDiou:
      return diou_loss(boxes, targets).sum();
    case BoxLossType::kCiou:
      return ciou_loss(boxes, targets).sum();
    case BoxLossType::kSmoothL1:
      break;
  }
  throw Error("smooth L1 is not an IoU loss", "encode the boxes and use smooth_l1_loss_sum");
}

}  // namespace detforge
