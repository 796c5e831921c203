#include "detforge/ops/iou.h"

#include <string>

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

}  // namespace

Tensor box_area(const Tensor& boxes) {
  check_boxes(boxes);
  return (boxes.select(1, 2) - boxes.select(1, 0)) * (boxes.select(1, 3) - boxes.select(1, 1));
}

Tensor pairwise_iou(const Tensor& a, const Tensor& b) {
  check_boxes(a);
  check_boxes(b);
  DETFORGE_CHECK(a.is_cpu() && b.is_cpu(), "pairwise_iou has no kernel for this device",
                 "move the boxes to the CPU");
  const Tensor a_f32 = a.detach().to(torch::kFloat).contiguous();
  const Tensor b_f32 = b.detach().to(torch::kFloat).contiguous();
  Tensor result = torch::empty({a.size(0), b.size(0)}, torch::kFloat);
  cpu::pairwise_iou(a_f32.data_ptr<float>(), static_cast<std::size_t>(a.size(0)),
                    b_f32.data_ptr<float>(), static_cast<std::size_t>(b.size(0)),
                    result.data_ptr<float>());
  return result;
}

}  // namespace detforge
