#include "detforge/models/yolo/darknet_assigner.h"

#include <algorithm>

#include <torch/types.h>

#include "detforge/core/error.h"
#include "detforge/models/yolo/anchor_grid.h"
#include "detforge/ops/iou.h"

namespace detforge {
namespace {

/// IoU of an anchor and a box of size `width` x `height` that share their centre.
double shape_iou(const std::array<double, 2>& anchor, double width, double height) {
  const double inter = std::min(anchor[0], width) * std::min(anchor[1], height);
  return inter / (anchor[0] * anchor[1] + width * height - inter);
}

/// The shape, of the anchors of all scales, that is most like a box; the first of equals.
std::array<double, 2> nearest_shape(const std::vector<YoloScale>& scales,
                                    double width,
                                    double height) {
  std::array<double, 2> best{};
  double best_iou = -1.0;
  for (const YoloScale& scale : scales) {
    for (const auto& anchor : scale.anchors) {
      const double iou = shape_iou(anchor, width, height);
      if (iou > best_iou) {
        best_iou = iou;
        best = anchor;
      }
    }
  }
  return best;
}

/// Rule 1.
void ignore_good_predictions(const Tensor& predicted,
                             const Tensor& gt_boxes,
                             double ignore_iou,
                             std::vector<std::int64_t>& gt_of_anchor) {
  const Tensor highest = std::get<0>(pairwise_iou(predicted, gt_boxes).max(1));
  const float* values = highest.data_ptr<float>();
  for (std::size_t i = 0; i < gt_of_anchor.size(); ++i) {
    if (static_cast<double>(values[i]) > ignore_iou) {
      gt_of_anchor[i] = YoloAssignment::kIgnored;
    }
  }
}

/// Rule 2 for object `gt`.
void assign_object(const std::vector<YoloScale>& scales,
                   const std::vector<AnchorGrid>& grids,
                   const float* box,
                   std::int64_t gt,
                   YoloAssignment& assignment) {
  const std::array<double, 2> shape = nearest_shape(scales, static_cast<double>(box[2]) - box[0],
                                                    static_cast<double>(box[3]) - box[1]);
  for (std::size_t s = 0; s < scales.size(); ++s) {
    for (std::size_t a = 0; a < scales[s].anchors.size(); ++a) {
      if (scales[s].anchors[a] != shape) {
        continue;
      }
      const std::int64_t anchor = grids[s].index(grids[s].cell_of(box), a);
      std::int64_t& role = assignment.gt_of_anchor[static_cast<std::size_t>(anchor)];
      if (role > 0) {
        assignment.further_classes.push_back({.anchor = anchor, .gt = role - 1});
      }
      role = gt + 1;
    }
  }
}

}  // namespace

YoloAssignment assign_as_darknet(const std::vector<YoloScale>& scales,
                                 const std::vector<ImageSize>& grids,
                                 const Tensor& predicted,
                                 const Tensor& gt_boxes,
                                 const DarknetAssignOptions& options) {
  const std::vector<AnchorGrid> anchors = anchor_grids(scales, grids);
  const std::int64_t count = anchors.back().first() + anchors.back().size();
  DETFORGE_CHECK(predicted.dim() == 2 && predicted.size(0) == count && predicted.size(1) == 4 &&
                     gt_boxes.dim() == 2 && gt_boxes.size(1) == 4,
                 "Darknet's assigner needs [" + std::to_string(count) +
                     ",4] predicted boxes and [G,4] objects",
                 "pass xyxy rows, one prediction per anchor");
  YoloAssignment assignment{.gt_of_anchor = std::vector<std::int64_t>(
                                static_cast<std::size_t>(count), YoloAssignment::kNegative)};
  const Tensor boxes = gt_boxes.detach().to(torch::kCPU, torch::kFloat).contiguous();
  if (boxes.size(0) > 0) {
    ignore_good_predictions(predicted, boxes, options.ignore_iou, assignment.gt_of_anchor);
  }
  for (std::int64_t g = 0; g < boxes.size(0); ++g) {
    assign_object(scales, anchors, boxes.data_ptr<float>() + 4 * g, g, assignment);
  }
  return assignment;
}

}  // namespace detforge
