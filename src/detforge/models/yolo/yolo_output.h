#pragma once

#include <vector>

#include "detforge/models/yolo/yolo_scale.h"
#include "detforge/structures/detections.h"

namespace detforge {

/// Which predictions are left for NMS. In all: anchors of conf below conf_threshold go, a score is
/// conf * class probability, and one anchor may be found as several classes.
enum class YoloSelection {
  kClassProbability,  ///< mmdetection 3: class probability > score_threshold, the nms_pre most
                      ///< probable (anchor, class) pairs of all scales
  kConf,     ///< mmdetection 2: the nms_pre anchors of highest conf of each scale, then class
             ///< probability > score_threshold
  kProduct,  ///< Darknet: score > score_threshold, the nms_pre best pairs of all scales
};

struct YoloOutputOptions {
  YoloSelection selection = YoloSelection::kClassProbability;
  double conf_threshold = 0.005;
  double score_threshold = 0.05;
  std::int64_t nms_pre = 1000;  ///< -1: no limit
  double nms_threshold = 0.45;  ///< IoU within a class
  std::int64_t detections_per_image = 100;
};

/// Detections of each image of maps, by falling score, after NMS within each class; boxes in pixels
/// of the network input, not clipped to it. Predictions that are not finite, and boxes without
/// area, are left out. No gradient. Ref: mmdetection's YOLOV3Head.predict_by_feat. Throws Error if
/// the maps do not fit the layout.
std::vector<Detections> yolo_detections(const std::vector<Tensor>& maps,
                                        const YoloLayout& layout,
                                        const YoloOutputOptions& options);

}  // namespace detforge
