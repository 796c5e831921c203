#pragma once

#include "detforge/models/yolo/yolo_assignment.h"

namespace detforge {

struct DarknetAssignOptions {
  double ignore_iou = 0.7;  ///< Darknet's ignore_thresh: predictions above it are no negatives
};

/// Darknet's assignment (forward_yolo_layer of yolov3.cfg, truth_thresh 1):
///   1. an anchor is negative, unless the box that it predicts now has an IoU above ignore_iou with
///      any object: then it is ignored;
///   2. for each object in order, the anchor in the cell of its centre whose shape has the highest
///      IoU with the object's shape, of the anchors of all scales, belongs to it (the first of
///      equals; the same shape in two scales counts in both); a later object takes it from an
///      earlier one, whose class stays as a second one.
///   predicted  [R,4] f32 xyxy boxes of all anchors    gt_boxes [G,4] f32 xyxy, both in pixels
YoloAssignment assign_as_darknet(const std::vector<YoloScale>& scales,
                                 const std::vector<ImageSize>& grids,
                                 const Tensor& predicted,
                                 const Tensor& gt_boxes,
                                 const DarknetAssignOptions& options);

}  // namespace detforge
