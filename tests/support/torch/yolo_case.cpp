#include "support/torch/yolo_case.h"

#include <torch/types.h>

#include "support/torch/tensors.h"

namespace detforge::test {

bool is_yolo_case(const nlohmann::json& description) {
  return description.value("base_config", "").find("yolov3_d53") != std::string::npos;
}

YoloV3Options yolo_case_options(const nlohmann::json& description) {
  const nlohmann::json& model = description.at("model");
  const nlohmann::json& test = model.at("test_cfg");
  const std::int64_t divisor = model.at("width_divisor");
  YoloV3Options options;
  options.darknet.stem_channels /= divisor;
  options.darknet.norm = model.at("backbone_norm_eval") ? NormType::kEvalBn : NormType::kBn;
  for (auto* widths : {&options.neck.widths, &options.head.widths}) {
    for (std::int64_t& width : *widths) {
      width /= divisor;
    }
  }
  options.layout.num_classes = model.at("num_classes");
  options.output = {.conf_threshold = test.at("conf_thr"),
                    .score_threshold = test.at("score_thr"),
                    .nms_pre = test.at("nms_pre"),
                    .nms_threshold = test.at("nms_iou"),
                    .detections_per_image = test.at("max_per_img")};
  return options;
}

std::unique_ptr<YoloV3> yolo_case_model(const ParityCase& parity_case) {
  auto model = std::make_unique<YoloV3>(yolo_case_options(parity_case.description), /*seed=*/1);
  load_case_weights(parity_case, *model);
  return model;
}

ImageBatch yolo_case_images(const ParityCase& parity_case) {
  ImageBatch batch = case_images(read_npz(parity_case.folder / "inputs.npz"),
                                 [](const Tensor& bgr) { return bgr.flip(0) / 255.0; });
  const Npz train = read_npz(parity_case.folder / "train.npz");
  if (const auto input = train.find("input"); input != train.end()) {
    batch.images = to_tensor(input->second);
  }
  return batch;
}

}  // namespace detforge::test
