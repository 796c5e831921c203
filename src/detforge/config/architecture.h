#pragma once

#include <cstdint>
#include <string>

#include "detforge/config/config.h"

/// What depends on MODEL.META_ARCHITECTURE and not on a section of its own.
namespace detforge {

/// Faster and Mask R-CNN.
bool is_rcnn(const ModelConfig& model);

/// False for keys of parts that another architecture has: MODEL.RPN.* for a YOLO, and for a .cfg
/// network what its file says: MODEL.YOLO.ANCHORS.
bool is_used(const ModelConfig& model, const std::string& key);

/// BASE_LR over IMS_PER_BATCH in the reference's recipes.
double usual_lr_per_image(const ModelConfig& model);

/// The key that says how many classes the model has; empty if its .cfg file does (Darknet).
std::string num_classes_key(const ModelConfig& model);

/// The value of that key; -1 if there is none.
std::int64_t num_classes(const ModelConfig& model);

}  // namespace detforge
