#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "detforge/core/tensor.h"
#include "detforge/models/yolo/yolo_loss_options.h"
#include "detforge/models/yolo/yolo_scale.h"
#include "detforge/structures/targets.h"

/// YOLOv3's assignment and losses as loops over everything, written from mmdetection's and
/// Darknet's rules. IoUs in f32, because comparisons must come out the same.
namespace detforge::test {

/// Boxes of all anchors xyxy.
std::vector<std::array<float, 4>> naive_anchors(const std::vector<YoloScale>& scales,
                                                const std::vector<ImageSize>& grids);

float naive_iou(const std::array<float, 4>& a, const std::array<float, 4>& b);

/// Per anchor: -1 ignored, 0 negative, k > 0: object k - 1.
std::vector<std::int64_t> naive_grid_assign(const std::vector<YoloScale>& scales,
                                            const std::vector<ImageSize>& grids,
                                            const Tensor& gt_boxes,
                                            const GridAssignOptions& options);

/// The same as Darknet does it; classes[i] collects the objects whose class anchor i learns.
struct NaiveDarknetAssignment {
  std::vector<std::int64_t> roles;
  std::vector<std::vector<std::int64_t>> objects;
};
NaiveDarknetAssignment naive_darknet_assign(const std::vector<YoloScale>& scales,
                                            const std::vector<ImageSize>& grids,
                                            const Tensor& predicted,
                                            const Tensor& gt_boxes,
                                            double ignore_iou);

/// cls, conf, xy, wh of a batch, in f64, from maps [N,A*(5+K),H,W].
std::array<double, 4> naive_yolo_losses(const std::vector<Tensor>& maps,
                                        const YoloLayout& layout,
                                        const std::vector<Targets>& targets,
                                        const YoloLossOptions& options);

}  // namespace detforge::test
