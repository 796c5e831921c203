#pragma once

#include <vector>

#include "detforge/models/yolo/yolo_loss_options.h"
#include "detforge/structures/targets.h"

namespace detforge {

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

}  // namespace detforge
