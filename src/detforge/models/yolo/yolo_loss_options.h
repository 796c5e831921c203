#pragma once

#include "detforge/models/yolo/darknet_assigner.h"
#include "detforge/models/yolo/grid_assigner.h"

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
inline YoloLossOptions darknet_loss_options() {
  return {.assigner = YoloAssigner::kDarknet, .xy_weight = 1.0, .wh_weight = 0.5};
}

}  // namespace detforge
