#include "detforge/config/architecture.h"

#include <algorithm>
#include <array>

namespace detforge {

bool is_rcnn(const ModelConfig& model) {
  return model.meta_architecture == "GeneralizedRCNN";
}

bool is_used(const ModelConfig& model, const std::string& key) {
  const auto within = [&](const auto& sections) {
    return std::any_of(sections.begin(), sections.end(),
                       [&](const char* section) { return key.starts_with(section); });
  };
  constexpr std::array kRcnn = {
      "MODEL.BACKBONE.",         "MODEL.RESNETS.", "MODEL.FPN.", "MODEL.PROPOSAL_GENERATOR.",
      "MODEL.ANCHOR_GENERATOR.", "MODEL.RPN.",     "MODEL.ROI_"};
  constexpr std::array kYolo = {"MODEL.DARKNET.", "MODEL.YOLO."};
  constexpr std::array kSaidByCfg = {"MODEL.DARKNET.",           "MODEL.YOLO.NUM_CLASSES",
                                     "MODEL.YOLO.NECK_CHANNELS", "MODEL.YOLO.HEAD_CHANNELS",
                                     "MODEL.YOLO.ANCHORS",       "MODEL.YOLO.IGNORE_IOU_THRESH"};
  if (is_rcnn(model)) {
    return !within(kYolo);
  }
  const bool said_by_cfg =
      model.meta_architecture == "Darknet" && key != "MODEL.DARKNET.CFG" && within(kSaidByCfg);
  return !within(kRcnn) && !said_by_cfg;
}

double usual_lr_per_image(const ModelConfig& model) {
  return is_rcnn(model) ? 0.02 / 16 : 0.000125 / 64;
}

std::string num_classes_key(const ModelConfig& model) {
  if (is_rcnn(model)) {
    return "MODEL.ROI_HEADS.NUM_CLASSES";
  }
  return model.meta_architecture == "YOLOV3" ? "MODEL.YOLO.NUM_CLASSES" : "";
}

std::int64_t num_classes(const ModelConfig& model) {
  if (is_rcnn(model)) {
    return model.roi_heads.num_classes;
  }
  return model.meta_architecture == "YOLOV3" ? model.yolo.num_classes : -1;
}

}  // namespace detforge
