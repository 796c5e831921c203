#include <set>

#include <gtest/gtest.h>
#include <torch/types.h>

#include "detforge/core/error.h"
#include "detforge/core/files.h"
#include "detforge/models/summary.h"
#include "support/torch/random_boxes.h"
#include "support/torch/rcnn_case.h"
#include "support/torch/tensors.h"

namespace detforge {
namespace {

TEST(ResNet, EveryDepthGivesMapsOfItsFeatureSpecs) {
  const torch::NoGradGuard no_grad;
  const Tensor images = test::random_tensor({1, 3, 64, 96}, 1);
  for (const int depth : {18, 34, 50, 101, 152}) {
    ResNetOptions options{
        .depth = depth, .stem_out_channels = 8, .res2_out_channels = 32, .width_per_group = 8};
    if (depth <= 34) {
      options.res2_out_channels = 64;
    }
    ResNet resnet(options);
    const std::vector<Tensor> maps = resnet->forward(images);
    ASSERT_EQ(maps.size(), 4U);
    for (std::size_t i = 0; i < maps.size(); ++i) {
      const FeatureSpec& spec = resnet->features()[i];
      EXPECT_EQ(maps[i].sizes(),
                (std::vector<std::int64_t>{1, spec.channels, 64 / spec.stride, 96 / spec.stride}));
    }
  }
}

TEST(ResNet, DilatedRes5KeepsRes4Resolution) {
  ResNet resnet(ResNetOptions{.stem_out_channels = 8,
                              .res2_out_channels = 32,
                              .num_groups = 2,
                              .width_per_group = 4,
                              .res5_dilation = 2,
                              .out_features = {"res4", "res5"}});
  const std::vector<Tensor> maps = resnet->forward(torch::zeros({1, 3, 64, 64}));
  EXPECT_EQ(maps[0].size(2), maps[1].size(2));
  EXPECT_EQ(resnet->features()[1].stride, 16);
}

TEST(ResNet, FreezeAtFreezesWeightsAndBatchNorms) {
  ResNet resnet(
      ResNetOptions{.depth = 18, .norm = NormType::kBn, .res2_out_channels = 64, .freeze_at = 3});
  initialize_weights(*resnet, 1);
  resnet->forward(test::random_tensor({2, 3, 64, 64}, 1));
  for (const auto& item : resnet->named_parameters()) {
    const bool frozen = item.key().starts_with("stem") || item.key().starts_with("res2") ||
                        item.key().starts_with("res3");
    EXPECT_EQ(item.value().requires_grad(), !frozen) << item.key();
    EXPECT_FALSE(frozen && item.key().find("norm") != std::string::npos)
        << item.key() << " is still a parameter";
  }
  EXPECT_TRUE(resnet->named_buffers()["res3.0.conv1.norm.running_mean"].eq(0).all().item<bool>());
  EXPECT_FALSE(resnet->named_buffers()["res4.0.conv1.norm.running_mean"].eq(0).all().item<bool>());
}

TEST(ResNet, RefusesWhatDoesNotExist) {
  EXPECT_THROW(ResNet(ResNetOptions{.depth = 51}), Error);
  EXPECT_THROW(ResNet(ResNetOptions{.depth = 18}), Error);  // 256 res2 channels
  EXPECT_THROW(ResNet(ResNetOptions{.out_features = {"res6"}}), Error);
}

TEST(Fpn, AverageHalvesTheSum) {
  const torch::NoGradGuard no_grad;
  const auto make = [](FpnFuse fuse) {
    Fpn fpn(ResNet(ResNetOptions{
                .depth = 18, .res2_out_channels = 64, .out_features = {"res4", "res5"}}),
            FpnOptions{.in_features = {"res4", "res5"}, .out_channels = 16, .fuse = fuse});
    initialize_weights(*fpn, 3);
    return fpn;
  };
  const Tensor images = test::random_tensor({1, 3, 64, 64}, 1);
  const auto sum = make(FpnFuse::kSum)->forward(images);
  const auto average = make(FpnFuse::kAverage)->forward(images);
  ASSERT_EQ(sum.size(), 3U);  // p4, p5, p6
  EXPECT_TRUE(test::expect_close(average[0], sum[0] / 2, {.rtol = 1e-4, .atol = 1e-5}));
  EXPECT_TRUE(average[1].equal(sum[1]));
  EXPECT_TRUE(sum[2].equal(sum[1].slice(2, 0, 2, 2).slice(3, 0, 2, 2)));
}

TEST(Fpn, GroupNormReplacesTheBias) {
  Fpn fpn(ResNet(ResNetOptions{.depth = 18, .norm = NormType::kGn, .res2_out_channels = 64}),
          FpnOptions{.out_channels = 64, .norm = NormType::kGn});
  EXPECT_TRUE(fpn->named_parameters().contains("fpn_lateral2.norm.weight"));
  EXPECT_FALSE(fpn->named_parameters().contains("fpn_lateral2.bias"));
  EXPECT_EQ(fpn->forward(torch::zeros({1, 3, 64, 64})).size(), 5U);
}

TEST(ParameterSummary, FasterRcnnR50FpnHasDetectron2sCounts) {
  const FasterRcnn model({}, 1);
  const auto summary = summarize_parameters(model);
  EXPECT_EQ(summary.front().name, "backbone");
  EXPECT_EQ(summary.front().parameters, 26'799'296);
  EXPECT_EQ(summary.back().parameters, 41'699'936);
}

void expect_names(const std::string& model_name,
                  const nlohmann::json& expected,
                  const std::set<std::string>& trainable) {
  FasterRcnnOptions options;
  options.resnet.depth = model_name.find("R_101") == std::string::npos ? 50 : 101;
  if (model_name.starts_with("mask_rcnn")) {
    options.roi_heads.mask_head.emplace();
  }
  const FasterRcnn model(options, 1);
  const auto state = test::state_of(model);
  EXPECT_EQ(state.size(), expected.size());
  for (const auto& [name, shape] : expected.items()) {
    ASSERT_EQ(state.count(name), 1U) << name;
    EXPECT_EQ(state.at(name).sizes(), shape.get<std::vector<std::int64_t>>()) << name;
  }
  for (const auto& item : model.named_parameters()) {
    EXPECT_EQ(item.value().requires_grad(), trainable.count(item.key()) == 1) << item.key();
  }
}

TEST(WeightNamesParity, NamesShapesAndTrainableSetEqualDetectron2) {
  const auto cases = test::parity_cases([](const nlohmann::json& d) {
    return d.contains("files") && d["files"].contains("d2_names.json");
  });
  ASSERT_FALSE(cases.empty());
  for (const auto& parity_case : cases) {
    const auto names = nlohmann::json::parse(files::read(parity_case.folder / "d2_names.json"));
    for (const auto& [model_name, expected] : names.items()) {
      if (!model_name.ends_with("/trainable")) {
        SCOPED_TRACE(model_name);
        expect_names(model_name, expected, names.at(model_name + "/trainable"));
      }
    }
  }
}

}  // namespace
}  // namespace detforge
