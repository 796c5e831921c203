#include "detforge/export/name_maps.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "detforge/core/error.h"
#include "detforge/core/files.h"
#include "support/test_data.h"

namespace detforge {
namespace {

using Json = nlohmann::json;

TEST(NameMaps, LayoutsAreRecognised) {
  EXPECT_EQ(detect_layout({"conv1_w", "res2_0_branch2a_w"}), NameLayout::kCaffe2ResNet);
  EXPECT_EQ(detect_layout({"conv1.weight", "layer1.0.conv1.weight", "fc.weight"}),
            NameLayout::kTorchvisionResNet);
  EXPECT_EQ(detect_layout({"backbone.body.conv1.weight"}), NameLayout::kTorchvisionDetector);
  EXPECT_EQ(detect_layout({"stem.conv1.weight"}), NameLayout::kBareBackbone);
  EXPECT_EQ(detect_layout({"conv1.conv.weight", "conv_res_block1.conv.conv.weight"}),
            NameLayout::kBareDarknet53);
  EXPECT_EQ(detect_layout({"backbone.bottom_up.stem.conv1.weight"}), NameLayout::kNative);
  EXPECT_EQ(detect_layout({"backbone.conv1.conv.weight"}), NameLayout::kNative);
}

TEST(NameMaps, ModulePrefixIsStrippedOnce) {
  EXPECT_EQ(strip_module_prefix("module.backbone.x"), "backbone.x");
  EXPECT_EQ(strip_module_prefix("backbone.module.x"), "backbone.module.x");
}

TEST(NameMaps, TorchvisionDetectorNames) {
  const std::map<std::string, std::string> expected = {
      {"backbone.body.layer4.2.bn3.bias", "backbone.bottom_up.res5.2.conv3.norm.bias"},
      {"backbone.fpn.inner_blocks.0.0.weight", "backbone.fpn_lateral2.weight"},
      {"backbone.fpn.inner_blocks.3.weight", "backbone.fpn_lateral5.weight"},
      {"backbone.fpn.layer_blocks.1.0.bias", "backbone.fpn_output3.bias"},
      {"rpn.head.conv.0.0.weight", "proposal_generator.rpn_head.conv.weight"},
      {"rpn.head.conv.bias", "proposal_generator.rpn_head.conv.bias"},
      {"rpn.head.cls_logits.weight", "proposal_generator.rpn_head.objectness_logits.weight"},
      {"roi_heads.box_head.fc7.bias", "roi_heads.box_head.fc2.bias"},
      {"roi_heads.box_predictor.cls_score.bias", "roi_heads.box_predictor.cls_score.bias"},
      {"roi_heads.mask_head.mask_fcn4.weight", "roi_heads.mask_head.mask_fcn4.weight"},
      {"roi_heads.mask_predictor.mask_fcn_logits.weight", "roi_heads.mask_head.predictor.weight"}};
  for (const auto& [from, to] : expected) {
    EXPECT_EQ(torchvision_detector_to_detectron2(from).value_or("nothing"), to) << from;
  }
  EXPECT_FALSE(torchvision_detector_to_detectron2("backbone.fpn.other.0.weight").has_value());
  EXPECT_FALSE(torchvision_detector_to_detectron2("something").has_value());
}

TEST(NameMaps, TorchvisionDetectorNamesOfVersion2DoNotCollide) {
  EXPECT_EQ(torchvision_detector_to_detectron2("backbone.fpn.inner_blocks.2.1.bias"),
            "backbone.fpn_lateral4.norm.bias");
  EXPECT_EQ(torchvision_detector_to_detectron2("backbone.fpn.layer_blocks.0.1.running_mean"),
            "backbone.fpn_output2.norm.running_mean");
  EXPECT_EQ(torchvision_detector_to_detectron2("rpn.head.conv.0.0.bias"),
            "proposal_generator.rpn_head.conv.bias");
  EXPECT_FALSE(torchvision_detector_to_detectron2("rpn.head.conv.1.0.bias").has_value());
  EXPECT_FALSE(torchvision_detector_to_detectron2("backbone.fpn.inner_blocks.2.2.bias"));
}

// What Detectron2's convert_basic_c2_names gives.
TEST(NameMaps, Caffe2NormsOfEveryKind) {
  const std::map<std::string, std::string> expected = {
      {"conv1_w", "stem.conv1.weight"},
      {"conv1_b", "stem.conv1.bias"},
      {"conv1_gn_s", "stem.conv1.norm.weight"},
      {"conv1_gn_b", "stem.conv1.norm.bias"},
      {"conv1_bn_s", "stem.conv1.norm.weight"},
      {"res_conv1_bn_b", "stem.conv1.norm.bias"},
      {"res_conv1_bn_rm", "stem.conv1.norm.running_mean"},
      {"res_conv1_bn_riv", "stem.conv1.norm.running_var"},
      {"res2_0_branch1_gn_s", "res2.0.shortcut.norm.weight"},
      {"res2_0_branch2a_w", "res2.0.conv1.weight"},
      {"res3_1_branch2a_gn_b", "res3.1.conv1.norm.bias"},
      {"res4_22_branch2b_bn_rm", "res4.22.conv2.norm.running_mean"},
      {"res4_22_branch2b_bn_riv", "res4.22.conv2.norm.running_var"},
      {"res4_22_branch2b_bn_running_mean", "res4.22.conv2.norm.running_mean"},
      {"res4_22_branch2b_bn_running_var", "res4.22.conv2.norm.running_var"},
      {"res5_2_branch2c_bn_gamma", "res5.2.conv3.norm.weight"},
      {"res5_2_branch2c_bn_beta", "res5.2.conv3.norm.bias"},
      {"pred_w", "linear.weight"},
      {"fc1000_b", "fc1000.bias"}};
  for (const auto& [from, to] : expected) {
    EXPECT_EQ(caffe2_to_detectron2(from), to) << from;
  }
}

TEST(NameMaps, LongestEndingWins) {
  const auto matches = match_by_ending({"a.b.conv.weight", "c.d.conv.weight", "xconv.weight"},
                                       {"conv.weight", "d.conv.weight"});
  const std::map<std::string, std::string> expected = {{"a.b.conv.weight", "conv.weight"},
                                                       {"c.d.conv.weight", "d.conv.weight"}};
  EXPECT_EQ(matches, expected);
}

TEST(NameMaps, AmbiguousEndingIsAnError) {
  EXPECT_THROW(match_by_ending({"a.conv.weight", "b.conv.weight"}, {"conv.weight"}), Error);
}

bool is_weight_names(const Json& description) {
  return description.value("case", "") == "unit_weight_names";
}

Json read_json(const std::filesystem::path& path) {
  return Json::parse(files::read(path));
}

TEST(WeightNamesParity, Caffe2NamesBecomeDetectron2s) {
  for (const test::ParityCase& parity : test::parity_cases(is_weight_names)) {
    const Json names = read_json(parity.folder / "c2_to_d2.json");
    for (const auto& [from, to] : names["converted"].items()) {
      EXPECT_EQ(caffe2_to_detectron2(from), to.get<std::string>());
    }
  }
}

TEST(WeightNamesParity, Caffe2FilesFillTheModelAsInDetectron2) {
  for (const test::ParityCase& parity : test::parity_cases(is_weight_names)) {
    const Json names = read_json(parity.folder / "c2_to_d2.json");
    const Json models = read_json(parity.folder / "d2_names.json");
    std::vector<std::string> model_names;
    for (const auto& [name, shape] : models["faster_rcnn_R_50_FPN"].items()) {
      model_names.push_back(name);
    }
    std::map<std::string, std::string> caffe2_name;
    std::vector<std::string> converted;
    for (const auto& [name, shape] : names["shapes"].items()) {
      converted.push_back(caffe2_to_detectron2(name));
      caffe2_name[converted.back()] = name;
    }
    const auto matches = match_by_ending(model_names, converted);
    for (const auto& [model_name, expected] : names["loaded"].items()) {
      // The reference also lists what is in the file but in no model: fc1000.*
      const bool in_model = models["faster_rcnn_R_50_FPN"].contains(model_name);
      EXPECT_EQ(matches.count(model_name), in_model ? 1U : 0U) << model_name;
      if (in_model) {
        EXPECT_EQ(caffe2_name.at(matches.at(model_name)), expected.get<std::string>());
      }
    }
    EXPECT_EQ(matches.size(), names["loaded"].size() - 2);
  }
}

TEST(WeightNamesParity, TorchvisionNamesBecomeDetectron2s) {
  for (const test::ParityCase& parity : test::parity_cases(is_weight_names)) {
    const Json names = read_json(parity.folder / "torchvision_to_d2.json");
    for (const auto& [from, to] : names.items()) {
      EXPECT_EQ(torchvision_resnet_to_detectron2(from).value_or("nothing"), to.get<std::string>());
    }
  }
  EXPECT_FALSE(torchvision_resnet_to_detectron2("fc.weight").has_value());
  EXPECT_FALSE(torchvision_resnet_to_detectron2("bn1.num_batches_tracked").has_value());
}

}  // namespace
}  // namespace detforge
