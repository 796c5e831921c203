#include "detforge/ops/nms.h"

#include <limits>
#include <string>

#include <ATen/record_function.h>
#include <torch/types.h>

#include "detforge/core/error.h"
#include "detforge/ops/cpu/nms_kernel.h"

namespace detforge {
namespace {

std::string shape_text(const Tensor& tensor) {
  std::string text;
  for (const std::int64_t size : tensor.sizes()) {
    text += (text.empty() ? "" : ",") + std::to_string(size);
  }
  return "[" + text + "]";
}

void check_input(const Tensor& boxes, const Tensor& scores, double iou_threshold) {
  DETFORGE_CHECK(boxes.dim() == 2 && boxes.size(1) == 4 && boxes.is_floating_point(),
                 "nms needs floating point boxes [N,4], got " + shape_text(boxes),
                 "pass boxes as xyxy rows");
  DETFORGE_CHECK(scores.dim() == 1 && scores.size(0) == boxes.size(0) && scores.is_floating_point(),
                 "nms needs one floating point score per box, got " + shape_text(scores) +
                     " for boxes " + shape_text(boxes),
                 "pass scores as [N]");
  DETFORGE_CHECK(boxes.size(0) < std::numeric_limits<std::int32_t>::max(),
                 "nms got " + std::to_string(boxes.size(0)) + " boxes", "keep the best ones first");
  DETFORGE_CHECK(boxes.is_cpu() && scores.is_cpu(), "nms has no kernel for this device",
                 "move boxes and scores to the CPU");
  DETFORGE_CHECK(iou_threshold >= 0.0 && iou_threshold <= 1.0,
                 "nms threshold " + std::to_string(iou_threshold) + " is outside 0..1",
                 "set an IoU between 0 and 1");
}

/// NaN in a sort key or a box would make the result depend on the order of comparisons.
void check_values(const Tensor& boxes, const Tensor& scores) {
  const float* box = boxes.data_ptr<float>();
  const float* score = scores.data_ptr<float>();
  for (std::int64_t i = 0; i < scores.numel(); ++i, box += 4) {
    const bool finite_box = std::isfinite(box[0]) && std::isfinite(box[1]) &&
                            std::isfinite(box[2]) && std::isfinite(box[3]);
    DETFORGE_CHECK(!std::isnan(score[i]), "score " + std::to_string(i) + " given to nms is NaN",
                   "the model has diverged or its input is not finite: lower the learning rate");
    DETFORGE_CHECK(finite_box, "box " + std::to_string(i) + " given to nms is not finite",
                   "drop such boxes before nms, or clip them to the image");
  }
}

}  // namespace

Tensor nms(const Tensor& boxes, const Tensor& scores, double iou_threshold) {
  return batched_nms(boxes, scores, {}, iou_threshold);
}

Tensor batched_nms(const Tensor& boxes,
                   const Tensor& scores,
                   const Tensor& groups,
                   double iou_threshold,
                   std::int64_t max_keep) {
  RECORD_FUNCTION("detforge::nms", {});
  check_input(boxes, scores, iou_threshold);
  const Tensor boxes_f32 = boxes.detach().to(torch::kFloat).contiguous();
  const Tensor scores_f32 = scores.detach().to(torch::kFloat).contiguous();
  check_values(boxes_f32, scores_f32);
  const auto count = static_cast<std::size_t>(scores.size(0));
  cpu::NmsInput input{boxes_f32.data_ptr<float>(), {scores_f32.data_ptr<float>(), count}, {}};
  Tensor group_ids;
  if (groups.defined()) {
    DETFORGE_CHECK(groups.dim() == 1 && groups.size(0) == scores.size(0) && groups.is_cpu() &&
                       groups.scalar_type() == torch::kLong,
                   "batched_nms needs one i64 group per box, got " + shape_text(groups) +
                       " for boxes " + shape_text(boxes),
                   "pass groups as i64 [N]");
    group_ids = groups.contiguous();
    input.groups = {group_ids.data_ptr<std::int64_t>(), count};
  }
  const std::vector<std::int64_t> kept = cpu::nms(input, iou_threshold, max_keep);
  return torch::tensor(kept, torch::kLong);
}

}  // namespace detforge
