#pragma once

#include "detforge/models/yolo/yolo_scale.h"

namespace detforge {

/// Boxes as YOLOv3 predicts them, relative to anchors [P,4] xyxy of one scale: [P,4] f32
///   x, y   position of the centre in its cell, 0..1: (gt centre - anchor centre) / stride + 0.5
///   w, h   log(gt size / anchor size)
/// With scale_xy s the network's x and y reach s times as far: x = (position + (s - 1) / 2) / s.
/// Ref: arXiv:1804.02767, sec. 2.1; mmdetection's YOLOBBoxCoder.

/// gt_boxes [P,4] xyxy -> [P,4]; x and y clamped to [1e-6, 1 - 1e-6], size ratios to at least 1e-6.
Tensor encode_yolo_boxes(const Tensor& anchors, const Tensor& gt_boxes, const YoloScale& scale);

/// values [P,4]: x and y behind the sigmoid, w and h as predicted -> boxes [P,4] xyxy.
Tensor decode_yolo_boxes(const Tensor& anchors, const Tensor& values, const YoloScale& scale);

/// The same from the network's rows [P,4 or more]: x, y logits, w, h.
Tensor decode_yolo_rows(const Tensor& anchors, const Tensor& rows, const YoloScale& scale);

}  // namespace detforge
