#pragma once

#include <memory>

#include "detforge/models/rcnn/faster_rcnn.h"
#include "support/torch/model_case.h"

namespace detforge::test {

/// True for parity cases of Detectron2's Faster R-CNN and Mask R-CNN (by base_config).
bool is_rcnn_case(const nlohmann::json& description);
/// True for those of Mask R-CNN.
bool has_masks(const nlohmann::json& description);

/// The options that a case's base_config and config_overrides mean. Throws Error on an override
/// that it does not know, so that no case is compared with the wrong model.
FasterRcnnOptions rcnn_case_options(const nlohmann::json& description);

/// The case's model with the case's weights (weights.npz, or the README's formula).
std::unique_ptr<FasterRcnn> rcnn_case_model(const ParityCase& parity_case);

/// inputs.npz as the network sees it, with Detectron2's BGR mean.
ImageBatch rcnn_case_images(const Npz& inputs);

}  // namespace detforge::test
