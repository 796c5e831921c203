#pragma once

#include "detforge/models/yolo/yolo_assignment.h"

namespace detforge {

struct GridAssignOptions {
  double positive_iou = 0.5;  ///< a responsible anchor above it is positive
  double negative_iou = 0.5;  ///< an anchor that is at most this close to every object is negative
  double min_positive_iou = 0.0;  ///< an object's best responsible anchors are positive above it
};

/// mmdetection's GridAssigner, gt_max_assign_all. An anchor is responsible if the centre of any
/// object lies in its cell. With the IoU of anchors and objects:
///   1. an anchor of IoU <= negative_iou with every object is negative, others are ignored;
///   2. a responsible anchor of IoU > positive_iou belongs to the object of highest IoU (the first
///      of equals);
///   3. for each object in order, the responsible anchors, over all scales, whose IoU is this
///      object's highest and above min_positive_iou belong to it; a later object takes them from an
///      earlier one.
///   grids     cells of each scale       gt_boxes [G,4] f32 xyxy pixels of the network input
/// IoUs are computed in f32 as the reference does, each alone, for the anchors near an object only:
/// time grows with G, not with the number of anchors times G. G = 0: all negative. A centre outside
/// the grid counts for the nearest cell.
YoloAssignment assign_on_grid(const std::vector<YoloScale>& scales,
                              const std::vector<ImageSize>& grids,
                              const Tensor& gt_boxes,
                              const GridAssignOptions& options);

}  // namespace detforge
