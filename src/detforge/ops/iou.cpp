#include "detforge/ops/iou.h"

#include <string>

#include <ATen/record_function.h>
#include <torch/types.h>

#include "detforge/core/error.h"
#include "detforge/ops/cpu/iou_kernel.h"

namespace detforge {
namespace {

void check_boxes(const Tensor& boxes) {
  DETFORGE_CHECK(boxes.dim() == 2 && boxes.size(1) == 4,
                 "boxes must be [N,4], got " + std::to_string(boxes.dim()) + " dimensions and " +
                     std::to_string(boxes.numel()) + " values",
                 "pass one xyxy row per box");
}

/// Rows of f32 for the kernels.
Tensor plain_boxes(const Tensor& boxes) {
  check_boxes(boxes);
  DETFORGE_CHECK(boxes.is_cpu(), "the IoU has no kernel for this device",
                 "move the boxes to the CPU");
  return boxes.detach().to(torch::kFloat).contiguous();
}

}  // namespace

Tensor box_area(const Tensor& boxes) {
  check_boxes(boxes);
  return (boxes.select(1, 2) - boxes.select(1, 0)) * (boxes.select(1, 3) - boxes.select(1, 1));
}

Tensor pairwise_iou(const Tensor& a, const Tensor& b) {
  RECORD_FUNCTION("detforge::pairwise_iou", {});
  const Tensor a_f32 = plain_boxes(a), b_f32 = plain_boxes(b);
  Tensor result = torch::empty({a.size(0), b.size(0)}, torch::kFloat);
  cpu::pairwise_iou(a_f32.data_ptr<float>(), static_cast<std::size_t>(a.size(0)),
                    b_f32.data_ptr<float>(), static_cast<std::size_t>(b.size(0)),
                    result.data_ptr<float>());
  return result;
}

BestIou best_iou(const Tensor& gt_boxes, const Tensor& boxes) {
  RECORD_FUNCTION("detforge::best_iou", {});
  const Tensor gt = plain_boxes(gt_boxes), all = plain_boxes(boxes);
  BestIou best{.iou = torch::zeros({all.size(0)}, torch::kFloat),
               .gt_index = torch::zeros({all.size(0)}, torch::kLong),
               .highest = torch::zeros({gt.size(0)}, torch::kFloat),
               .is_highest = torch::zeros({all.size(0)}, torch::kByte)};
  if (gt.size(0) > 0 && all.size(0) > 0) {
    cpu::best_iou(gt.data_ptr<float>(), static_cast<std::size_t>(gt.size(0)), all.data_ptr<float>(),
                  static_cast<std::size_t>(all.size(0)),
                  {.iou = best.iou.data_ptr<float>(),
                   .index = best.gt_index.data_ptr<std::int64_t>(),
                   .highest = best.highest.data_ptr<float>(),
                   .is_highest = best.is_highest.data_ptr<std::uint8_t>()});
  }
  return best;
}

}  // namespace detforge
