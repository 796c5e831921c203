#include "support/torch/rcnn_case.h"

#include <functional>

#include <fmt/format.h>
#include <torch/types.h>

#include "detforge/core/error.h"

namespace detforge::test {
namespace {

using Json = nlohmann::json;
using Setter = std::function<void(FasterRcnnOptions&, const Json&)>;

const std::map<std::string, Setter>& setters() {
  static const std::map<std::string, Setter> table{
      {"MODEL.RESNETS.DEPTH", [](auto& o, const Json& v) { o.resnet.depth = v; }},
      {"MODEL.RESNETS.STEM_OUT_CHANNELS",
       [](auto& o, const Json& v) { o.resnet.stem_out_channels = v; }},
      {"MODEL.RESNETS.WIDTH_PER_GROUP",
       [](auto& o, const Json& v) { o.resnet.width_per_group = v; }},
      {"MODEL.RESNETS.RES2_OUT_CHANNELS",
       [](auto& o, const Json& v) { o.resnet.res2_out_channels = v; }},
      {"MODEL.BACKBONE.FREEZE_AT", [](auto& o, const Json& v) { o.resnet.freeze_at = v; }},
      {"MODEL.FPN.OUT_CHANNELS", [](auto& o, const Json& v) { o.fpn.out_channels = v; }},
      {"MODEL.ROI_BOX_HEAD.FC_DIM",
       [](auto& o, const Json& v) { o.roi_heads.box_head.fc_dim = v; }},
      {"MODEL.ROI_HEADS.NUM_CLASSES",
       [](auto& o, const Json& v) { o.roi_heads.output.num_classes = v; }},
      {"MODEL.ROI_MASK_HEAD.CONV_DIM",
       [](auto& o, const Json& v) { o.roi_heads.mask_head.value().conv_dim = v; }},
      {"MODEL.RPN.BATCH_SIZE_PER_IMAGE",
       [](auto& o, const Json& v) { o.rpn.sampling.batch_size = v; }},
      {"MODEL.ROI_HEADS.BATCH_SIZE_PER_IMAGE",
       [](auto& o, const Json& v) { o.roi_heads.batch_size_per_image = v; }},
      {"MODEL.RPN.PRE_NMS_TOPK_TRAIN",
       [](auto& o, const Json& v) { o.rpn.train.pre_nms_top_k = v; }},
      {"MODEL.RPN.POST_NMS_TOPK_TRAIN",
       [](auto& o, const Json& v) { o.rpn.train.post_nms_top_k = v; }},
      {"MODEL.RPN.PRE_NMS_TOPK_TEST", [](auto& o, const Json& v) { o.rpn.test.pre_nms_top_k = v; }},
      {"MODEL.RPN.POST_NMS_TOPK_TEST",
       [](auto& o, const Json& v) { o.rpn.test.post_nms_top_k = v; }},
      {"MODEL.DEVICE", [](auto&, const Json&) {}},
      {"MODEL.WEIGHTS", [](auto&, const Json&) {}},
  };
  return table;
}

}  // namespace

bool is_rcnn_case(const Json& description) {
  const std::string base = description.value("base_config", "");
  return base.find("faster_rcnn") != std::string::npos ||
         base.find("mask_rcnn") != std::string::npos;
}

bool has_masks(const Json& description) {
  return description.value("base_config", "").find("mask_rcnn") != std::string::npos;
}

FasterRcnnOptions rcnn_case_options(const Json& description) {
  FasterRcnnOptions options;
  if (description.at("base_config").get<std::string>().find("R_101") != std::string::npos) {
    options.resnet.depth = 101;
  }
  if (has_masks(description)) {
    options.roi_heads.mask_head.emplace();
  }
  for (const auto& [key, value] : description.at("config_overrides").items()) {
    const auto setter = setters().find(key);
    DETFORGE_CHECK(setter != setters().end(),
                   "override " + key + " of a parity case is not handled",
                   "extend tests/support/torch/rcnn_case.cpp");
    setter->second(options, value);
  }
  return options;
}

std::unique_ptr<FasterRcnn> rcnn_case_model(const ParityCase& parity_case) {
  auto model = std::make_unique<FasterRcnn>(rcnn_case_options(parity_case.description), /*seed=*/1);
  load_case_weights(parity_case, *model);
  return model;
}

ImageBatch rcnn_case_images(const Npz& inputs) {
  const Tensor mean = torch::tensor({103.53F, 116.28F, 123.675F}).view({3, 1, 1});
  return case_images(inputs, [&mean](const Tensor& image) { return image - mean; });
}

}  // namespace detforge::test
