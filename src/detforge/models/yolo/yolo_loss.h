#pragma once

#include <vector>

#include "detforge/models/detector.h"
#include "detforge/models/yolo/darknet_assigner.h"
#include "detforge/models/yolo/grid_assigner.h"
#include "detforge/models/yolo/yolo_scale.h"

namespace detforge {

/// Who decides which anchors learn which object.
enum class YoloAssigner {
  kGrid,     ///< mmdetection's: by IoU of anchors with objects
  kDarknet,  ///< Darknet's: the one anchor of the object's shape; near misses do not count
};

struct YoloLossOptions {
  YoloAssigner assigner = YoloAssigner::kGrid;
  GridAssignOptions grid{};        ///< only for kGrid
  DarknetAssignOptions darknet{};  ///< only for kDarknet
  double cls_weight = 1.0;
  double conf_weight = 1.0;
  double xy_weight = 2.0;
  double wh_weight = 2.0;
};

/// The options that give Darknet's own gradients: its assigner, xy weight 1, wh weight 0.5.
YoloLossOptions darknet_loss_options();

/// What the anchors of one scale should predict, for all images of a batch. P: positive anchors.
struct YoloTargets {
  Tensor conf;                 ///< [N,H*W,A] f32: 1 for positive anchors, else 0
  Tensor conf_weight;          ///< [N,H*W,A] f32: 0 for ignored anchors, else 1
  Tensor image, cell, anchor;  ///< [P] i64 each: where a positive anchor stands in conf
  Tensor boxes;                ///< [P,4] f32: encoded, see yolo_coder.h
  Tensor box_weight;           ///< [P] f32: 1, or Darknet's 2 - area / image area
  Tensor classes;              ///< [P,K] f32: 1 for the object's class, else 0
};

/// Targets of each scale. `maps` give the grids and, for kDarknet, the boxes predicted now.
/// targets[i] belongs to image i. Computed on the CPU without gradient.
std::vector<YoloTargets> yolo_targets(const std::vector<Tensor>& maps,
                                      const YoloLayout& layout,
                                      const std::vector<Targets>& targets,
                                      const YoloLossOptions& options);

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
