#pragma once

#include <memory>

#include "detforge/models/yolo/yolov3.h"
#include "support/torch/model_case.h"

namespace detforge::test {

/// True for parity cases of mmdetection's YOLOv3 (by base_config).
bool is_yolo_case(const nlohmann::json& description);

/// The options that a case's `model` means.
YoloV3Options yolo_case_options(const nlohmann::json& description);

/// The case's model with the case's weights.
std::unique_ptr<YoloV3> yolo_case_model(const ParityCase& parity_case);

/// The case's images as the network sees them: `input` of train.npz, where the case has it, else
/// RGB / 255. (The small cases were computed with another mean and std for each channel than their
/// case.json says, so that `input` is the only record of them.)
ImageBatch yolo_case_images(const ParityCase& parity_case);

}  // namespace detforge::test
