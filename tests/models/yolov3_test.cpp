#include "detforge/models/yolo/yolov3.h"

#include <cmath>

#include <gtest/gtest.h>
#include <torch/types.h>

#include "detforge/core/error.h"
#include "detforge/models/summary.h"
#include "detforge/ops/iou.h"
#include "support/torch/model_case.h"
#include "support/torch/random_boxes.h"
#include "support/torch/tensors.h"

namespace detforge {
namespace {

YoloV3Options small_options() {
  YoloV3Options options;
  options.darknet = {.stem_channels = 4, .blocks = {1, 1, 1, 1, 1}};
  options.neck.widths = {16, 16, 8};
  options.head.widths = {32, 16, 16};
  options.layout.num_classes = 2;
  return options;
}

ImageBatch random_images(std::int64_t count) {
  ImageBatch batch;
  batch.images = test::random_tensor({count, 3, 64, 96}, 3).abs();
  for (std::int64_t i = 0; i < count; ++i) {
    batch.sizes.push_back({64, 96});
    batch.paths.push_back("image" + std::to_string(i));
  }
  return batch;
}

Targets one_object(std::int64_t label) {
  return {.boxes = torch::tensor({{10.0F, 8.0F, 40.0F, 36.0F}}),
          .labels = torch::full({1}, label, torch::kLong)};
}

Targets no_objects() {
  return {.boxes = torch::zeros({0, 4}), .labels = torch::zeros({0}, torch::kLong)};
}

Tensor total_of(const LossMap& losses) {
  Tensor total = torch::zeros({});
  for (const auto& [name, loss, count] : losses) {
    total = total + loss;
  }
  return total;
}

TEST(ParameterSummary, YoloV3HasMmdetectionsCounts) {
  const YoloV3 model({}, 1);
  const auto summary = summarize_parameters(model);
  ASSERT_EQ(summary.size(), 4U);
  EXPECT_EQ(summary[0].parameters, 40'584'928);
  EXPECT_EQ(summary[1].parameters, 14'709'760);
  EXPECT_EQ(summary[2].parameters, 6'654'461);
  EXPECT_EQ(summary[3].parameters, 61'949'149);
  EXPECT_EQ(summary[3].trainable, 61'949'149);
}

TEST(Darknet53, StagesAreHalvedEachTimeAndOddSizesRoundedUp) {
  const torch::NoGradGuard no_grad;
  Darknet53 darknet(Darknet53Options{.stem_channels = 2, .blocks = {0, 1, 0, 1, 2}});
  const auto maps = darknet->forward(torch::zeros({1, 3, 40, 65}));
  const std::vector<std::vector<std::int64_t>> expected{
      {1, 16, 5, 9}, {1, 32, 3, 5}, {1, 64, 2, 3}};
  ASSERT_EQ(maps.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(maps[i].sizes(), expected[i]);
    EXPECT_EQ(darknet->features()[i].channels, expected[i][1]);
  }
}

TEST(Darknet53, FrozenStagesTrainNothingAndKeepTheirStatistics) {
  Darknet53 darknet(
      Darknet53Options{.stem_channels = 4, .norm = NormType::kBn, .frozen_stages = 3});
  initialize_weights(*darknet, 1);
  darknet->forward(test::random_tensor({2, 3, 64, 64}, 1));
  for (const auto& item : darknet->named_parameters()) {
    const bool frozen = item.key().starts_with("conv1.") ||
                        item.key().starts_with("conv_res_block1.") ||
                        item.key().starts_with("conv_res_block2.");
    EXPECT_EQ(item.value().requires_grad(), !frozen) << item.key();
  }
  const auto buffers = darknet->named_buffers();
  EXPECT_TRUE(buffers["conv_res_block2.conv.bn.running_mean"].eq(0).all().item<bool>());
  EXPECT_FALSE(buffers["conv_res_block3.conv.bn.running_mean"].eq(0).all().item<bool>());
}

TEST(Darknet53, RefusesWhatDoesNotExist) {
  EXPECT_THROW(Darknet53(Darknet53Options{.stem_channels = 0}), Error);
  EXPECT_THROW(Darknet53(Darknet53Options{.blocks = {1, 2, 8, 8, -4}}), Error);
  EXPECT_THROW(Darknet53(Darknet53Options{.frozen_stages = 7}), Error);
  EXPECT_THROW(Darknet53(Darknet53Options{.norm = NormType::kNone}), Error);
}

TEST(YoloV3, NormEvalTrainsTheBackbonesAffineValuesButNotItsStatistics) {
  YoloV3 model(small_options(), 1);
  total_of(model.losses(random_images(2), {one_object(0), one_object(1)})).backward();
  const auto state = test::state_of(model);
  const Tensor& mean = state.at("backbone.conv1.bn.running_mean");
  EXPECT_TRUE(mean.eq(0).all().item<bool>());
  EXPECT_GT(state.at("backbone.conv1.bn.weight").grad().abs().max().item<double>(), 0);
  EXPECT_GT(state.at("backbone.conv1.bn.bias").grad().abs().max().item<double>(), 0);
  EXPECT_FALSE(state.at("neck.detect1.conv1.bn.running_mean").eq(0).all().item<bool>());
  EXPECT_FALSE(state.at("bbox_head.convs_bridge.2.bn.running_mean").eq(0).all().item<bool>());
}

TEST(YoloV3, StartsFromPriorsOfTheHead) {
  const YoloV3 model({}, 1);
  const auto state = test::state_of(model);
  const Tensor bias = state.at("bbox_head.convs_pred.1.bias").detach().view({3, 85});
  // Stride 16: 8 / (608 / 16)^2 = 0.00554; sigmoid gives the probabilities back.
  EXPECT_TRUE(bias.slice(1, 0, 4).eq(0).all().item<bool>());
  EXPECT_NEAR(bias[2][4].sigmoid().item<double>(), 8.0 / (38 * 38), 1e-7);
  EXPECT_NEAR(bias[0][84].sigmoid().item<double>(), 0.01, 1e-7);
  const auto std_of = [&](const char* name) {
    return state.at(name).detach().std().item<double>();
  };
  EXPECT_NEAR(std_of("bbox_head.convs_bridge.0.conv.weight"), 0.01, 1e-4);
  EXPECT_NEAR(std_of("bbox_head.convs_pred.0.weight"), 0.01, 2e-4);
  // Kaiming normal, fan out: 512 * 1 with slope 0.1 in the neck, 1024 * 9 with ReLU's gain below.
  EXPECT_NEAR(std_of("neck.detect1.conv1.conv.weight"), std::sqrt(2 / (1.01 * 512)), 3e-4);
  EXPECT_NEAR(std_of("backbone.conv_res_block5.conv.conv.weight"), std::sqrt(2.0 / 9216), 1e-4);
}

TEST(YoloV3, EveryParameterGetsAGradientWithoutObjects) {
  for (const NormType norm : {NormType::kEvalBn, NormType::kBn}) {
    YoloV3Options options = small_options();
    options.darknet.norm = norm;
    YoloV3 model(options, 1);
    total_of(model.losses(random_images(2), {no_objects(), no_objects()})).backward();
    for (const auto& item : model.named_parameters()) {
      ASSERT_TRUE(item.value().grad().defined()) << item.key();
      EXPECT_TRUE(item.value().grad().isfinite().all().item<bool>()) << item.key();
    }
  }
}

TEST(YoloV3, PredictionsDoNotDependOnTheRestOfTheBatch) {
  const torch::NoGradGuard no_grad;
  YoloV3Options options = small_options();
  options.output.score_threshold = 0.0;
  options.output.conf_threshold = 0.0;
  YoloV3 model(options, 1);
  model.eval();
  const ImageBatch images = random_images(2);
  const auto both = model.predict(images);
  ImageBatch second = images;
  second.images = images.images.slice(0, 1, 2);
  second.sizes.resize(1);
  const auto alone = model.predict(second)[0];
  EXPECT_EQ(alone.scores.numel(), 100);
  EXPECT_TRUE(test::expect_close(both[1].scores, alone.scores, {.rtol = 1e-5}));
}

TEST(YoloV3, RefusesInputThatDoesNotFit) {
  YoloV3 model(small_options(), 1);
  ImageBatch images = random_images(1);
  EXPECT_THROW(model.losses(images, {one_object(2)}), Error);  // classes 0 and 1
  EXPECT_THROW(model.losses(images, {}), Error);
  images.images = torch::zeros({1, 3, 60, 96});
  EXPECT_THROW(model.predict(images), Error);
}

TEST(YoloV3, RefusesOptionsThatDoNotFit) {
  const auto refuses = [](const std::function<void(YoloV3Options&)>& change) {
    YoloV3Options options = small_options();
    change(options);
    EXPECT_THROW(YoloV3(options, 1), Error);
  };
  refuses([](auto& o) { o.neck.widths = {16, 8}; });
  refuses([](auto& o) { o.head.widths = {16}; });
  refuses([](auto& o) { o.layout.num_classes = 0; });
  refuses([](auto& o) { std::swap(o.layout.scales[0], o.layout.scales[2]); });
  refuses([](auto& o) { o.layout.scales[1].anchors.clear(); });
}

TEST(YoloV3, LearnsOneScene) {
  YoloV3Options options = small_options();
  options.darknet.norm = NormType::kBn;
  YoloV3 model(options, 1);
  ImageBatch images = random_images(2);
  images.images *= 0.3;
  images.images[0].slice(1, 8, 36).slice(2, 10, 40).fill_(1.0);
  images.images[1].slice(1, 8, 36).slice(2, 10, 40).select(0, 1).fill_(1.0);
  const std::vector<Targets> targets{one_object(0), one_object(1)};
  for (int step = 0; step < 250; ++step) {
    const Tensor total = total_of(model.losses(images, targets));
    model.zero_grad();
    total.backward();
    const torch::NoGradGuard no_grad;
    for (Tensor& parameter : model.parameters()) {
      parameter -=
          parameter.grad() * std::min(1.0, 1.0 / parameter.grad().norm().item<double>()) * 0.05;
    }
  }
  const torch::NoGradGuard no_grad;
  model.eval();
  const auto found = model.predict(images);
  for (std::int64_t i = 0; i < 2; ++i) {
    const Detections& best = found[static_cast<std::size_t>(i)];
    ASSERT_GT(best.scores.numel(), 0);
    EXPECT_EQ(best.labels[0].item<std::int64_t>(), i);
    EXPECT_GT(best.scores[0].item<double>(), 0.5);
    EXPECT_GT(pairwise_iou(best.boxes.slice(0, 0, 1), targets[0].boxes).item<double>(), 0.5);
  }
}

}  // namespace
}  // namespace detforge
