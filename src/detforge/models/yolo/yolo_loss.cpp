#include "detforge/models/yolo/yolo_loss.h"

#include <ATen/core/Reduction.h>
#include <torch/types.h>

namespace detforge {
namespace {

/// Binary cross entropy of each pair, in the stable form.
Tensor bce(const Tensor& logits, const Tensor& targets) {
  return at::binary_cross_entropy_with_logits(logits, targets, /*weight=*/{}, /*pos_weight=*/{},
                                              at::Reduction::None);
}

/// In f64, so that the threads that share a sum do not show in the result.
Tensor total(const Tensor& values) {
  return values.sum(torch::kDouble).to(torch::kFloat);
}

}  // namespace

YoloLosses yolo_scale_losses(const Tensor& map,
                             const YoloScale& scale,
                             const YoloTargets& targets,
                             const YoloLossOptions& options) {
  const Tensor rows = yolo_rows(map, scale);
  const Tensor conf = bce(rows.select(3, 4), targets.conf);
  const Tensor positive = rows.index({targets.image, targets.cell, targets.anchor});  // [P,5+K]
  const Tensor cls = bce(positive.slice(1, 5), targets.classes);
  const Tensor xy = bce(positive.slice(1, 0, 2), targets.boxes.slice(1, 0, 2));
  const Tensor wh = (positive.slice(1, 2, 4) - targets.boxes.slice(1, 2, 4)).square();
  const Tensor box_weight = targets.box_weight.unsqueeze(1);
  return {.cls = total(cls) * options.cls_weight,
          .conf = total(conf * targets.conf_weight) * options.conf_weight,
          .xy = total(xy * box_weight) * options.xy_weight,
          .wh = total(wh * box_weight) * options.wh_weight};
}

LossMap yolo_losses(const std::vector<Tensor>& maps,
                    const YoloLayout& layout,
                    const std::vector<Targets>& targets,
                    const YoloLossOptions& options) {
  const std::vector<YoloTargets> wanted = yolo_targets(maps, layout, targets, options);
  const Tensor zero = torch::zeros({});
  YoloLosses sum{.cls = zero, .conf = zero, .xy = zero, .wh = zero};
  for (std::size_t i = 0; i < maps.size(); ++i) {
    const YoloLosses scale = yolo_scale_losses(maps[i], layout.scales[i], wanted[i], options);
    sum = {.cls = sum.cls + scale.cls,
           .conf = sum.conf + scale.conf,
           .xy = sum.xy + scale.xy,
           .wh = sum.wh + scale.wh};
  }
  return {{"loss_cls", sum.cls}, {"loss_conf", sum.conf}, {"loss_xy", sum.xy}, {"loss_wh", sum.wh}};
}

}  // namespace detforge
