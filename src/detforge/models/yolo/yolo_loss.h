#pragma once

#include <vector>

#include "detforge/models/detector.h"
#include "detforge/models/yolo/yolo_targets.h"

namespace detforge {

/// Terms of one scale or of all: f32 scalars with gradient.
struct YoloLosses {
  Tensor cls, conf, xy, wh;
};
YoloLosses yolo_scale_losses(const Tensor& map,
                             const YoloScale& scale,
                             const YoloTargets& targets,
                             const YoloLossOptions& options);

/// loss_cls, loss_conf, loss_xy, loss_wh of a batch, summed over scales, images and anchors and
/// divided by nothing, in f32: binary cross entropies of class (positive anchors), conf (all but
/// ignored ones), x and y (positive), squared error of w and h (positive). Ref: mmdetection's
/// YOLOV3Head. Throws Error if the maps do not fit the layout.
LossMap yolo_losses(const std::vector<Tensor>& maps,
                    const YoloLayout& layout,
                    const std::vector<Targets>& targets,
                    const YoloLossOptions& options);

}  // namespace detforge
