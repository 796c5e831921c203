#include "detforge/models/rcnn/roi_heads.h"

#include <limits>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "detforge/core/error.h"
#include "support/test_data.h"
#include "support/torch/random_boxes.h"
#include "support/torch/tensors.h"

namespace detforge {
namespace {

using test::expect_close;

Tensor longs(std::initializer_list<std::int64_t> values) {
  return torch::tensor(std::vector<std::int64_t>(values), torch::kLong);
}

TEST(RoiPooler, AssignsLevelsBySize) {
  // 224 -> level 4; half the side one level down; beyond p2 and p5 clamped; empty boxes -> lowest
  const Tensor sides =
      torch::tensor({224.0F, 112.0F, 111.9F, 448.0F, 4000.0F, 3.0F, 0.0F}).unsqueeze(1);
  const Tensor boxes = torch::cat({torch::zeros({7, 2}), sides, sides}, 1);
  EXPECT_TRUE(expect_close(assign_levels(boxes, 2, 5, {}), longs({2, 1, 0, 3, 3, 0, 0}), {}));
}

TEST(RoiPooler, WithoutBoxesIsEmptyAndConnectedToEveryLevel) {
  const RoiPooler pooler({}, {4, 8});
  const std::vector<Tensor> maps{torch::ones({1, 3, 8, 8}).set_requires_grad(true),
                                 torch::ones({1, 3, 4, 4}).set_requires_grad(true)};
  const Tensor pooled = pooler.forward(maps, {torch::zeros({0, 4})});
  EXPECT_EQ(pooled.sizes(), (std::vector<std::int64_t>{0, 3, 7, 7}));
  pooled.sum().backward();
  EXPECT_TRUE(maps[0].grad().defined() && maps[1].grad().defined());
}

TEST(RoiPoolerProperty, ResultsKeepTheOrderOfBoxes) {
  const RoiPooler pooler({.resolution = 2, .canonical_box_size = 32}, {4, 8, 16});
  const std::vector<Tensor> maps{test::random_tensor({2, 3, 32, 32}, 1),
                                 test::random_tensor({2, 3, 16, 16}, 2),
                                 test::random_tensor({2, 3, 8, 8}, 3)};
  const std::vector<Tensor> boxes{test::random_boxes(9, 128, 4), test::random_boxes(6, 128, 5)};
  const Tensor together = pooler.forward(maps, boxes);
  const Tensor first_none = torch::zeros({0, 4});
  for (std::int64_t i = 0; i < 6; ++i) {
    const Tensor alone = pooler.forward(maps, {first_none, boxes[1].slice(0, i, i + 1)});
    EXPECT_TRUE(expect_close(together.slice(0, 9 + i, 10 + i), alone, {.atol = 1e-6}));
  }
}

TEST(RoiPoolerParity, LevelsAndPooledValuesEqualDetectron2) {
  const auto cases = test::parity_cases([](const nlohmann::json& d) {
    return d.contains("files") && d["files"].contains("pooler.npz");
  });
  ASSERT_FALSE(cases.empty());
  for (const auto& parity_case : cases) {
    const test::Npz arrays = test::read_npz(parity_case.folder / "pooler.npz");
    const Tensor boxes = test::to_tensor(arrays.at("boxes"));
    EXPECT_TRUE(
        expect_close(assign_levels(boxes, 2, 5, {}), test::to_tensor(arrays.at("levels")), {}));
    std::vector<Tensor> maps;
    for (int level = 0; level < 4; ++level) {
      maps.push_back(test::to_tensor(arrays.at(fmt::format("feat{}", level))));
    }
    EXPECT_TRUE(expect_close(RoiPooler({}, {4, 8, 16, 32}).forward(maps, {boxes}),
                             test::to_tensor(arrays.at("out")), {.rtol = 1e-5, .atol = 1e-5}));
  }
}

TEST(BoxHead, ConvolutionsAndFullyConnectedLayersAreNumberedFromOne) {
  BoxHead head(BoxHeadOptions{.num_conv = 1, .conv_dim = 8, .num_fc = 2, .fc_dim = 5}, 4, 3);
  EXPECT_EQ(head->named_parameters()["fc1.weight"].sizes(), (std::vector<std::int64_t>{5, 72}));
  EXPECT_TRUE(head->named_parameters().contains("conv1.bias"));
  EXPECT_EQ(head->forward(torch::zeros({0, 4, 3, 3})).sizes(), (std::vector<std::int64_t>{0, 5}));
}

class FastRcnn : public testing::Test {
 protected:
  FastRcnnOptions options_{.num_classes = 2};
  // Two proposals, deltas zero; logits make class 0 sure for the first, class 1 for the second.
  FastRcnnPredictorImpl::Output predictions_{
      torch::tensor({{8.0F, 0.0F, 0.0F}, {0.0F, 8.0F, 0.0F}}), torch::zeros({2, 8})};
  Tensor boxes_ = torch::tensor({{0.0F, 0.0F, 10.0F, 10.0F}, {20.0F, 0.0F, 40.0F, 10.0F}});
  std::vector<Proposals> proposals_{{.boxes = boxes_, .logits = torch::zeros({2})}};
};

TEST_F(FastRcnn, RegressionLossCountsOnlyTheOwnClassOfForeground) {
  predictions_.deltas = torch::arange(16).to(torch::kFloat).view({2, 8});
  // ROI 0 is class 1: deltas 4, 5, 6, 7 against 0: 22, over 2 ROIs; ROI 1 is background
  const std::vector<SampledRois> rois{
      {.boxes = boxes_, .labels = longs({1, 2}), .gt_boxes = boxes_}};
  const LossMap losses = fast_rcnn_losses(predictions_, rois, options_);
  EXPECT_EQ(losses[1].name, "loss_box_reg");
  EXPECT_NEAR(losses[1].value.item<double>(), 11.0, 1e-5);
}

TEST_F(FastRcnn, ClassAgnosticRegressionUsesItsOneBox) {
  predictions_.deltas = torch::ones({2, 4});
  options_.class_agnostic_boxes = true;
  const std::vector<SampledRois> rois{
      {.boxes = boxes_, .labels = longs({1, 0}), .gt_boxes = boxes_}};
  EXPECT_NEAR(fast_rcnn_losses(predictions_, rois, options_)[1].value.item<double>(), 4.0, 1e-5);
  EXPECT_EQ(fast_rcnn_inference(predictions_, proposals_, {{50, 50}}, options_)[0].boxes.size(0),
            2);
}

TEST_F(FastRcnn, IouLossOfPerfectBoxesIsZero) {
  options_.box_loss.type = BoxLossType::kGiou;
  const std::vector<SampledRois> rois{
      {.boxes = boxes_, .labels = longs({1, 0}), .gt_boxes = boxes_}};
  EXPECT_NEAR(fast_rcnn_losses(predictions_, rois, options_)[1].value.item<double>(), 0.0, 1e-5);
}

TEST_F(FastRcnn, DetectionsAreClippedAndSortedByScore) {
  predictions_.logits[1][1] = 9.0F;
  const auto found = fast_rcnn_inference(predictions_, proposals_, {{50, 30}}, options_);
  EXPECT_TRUE(expect_close(found[0].labels, longs({1, 0}), {}));
  EXPECT_TRUE(expect_close(found[0].boxes[0], torch::tensor({20.0F, 0.0F, 30.0F, 10.0F}), {}));
  EXPECT_GT(found[0].scores[0].item<float>(), found[0].scores[1].item<float>());
}

TEST_F(FastRcnn, OverlappingBoxesOfOtherClassesSurvive) {
  proposals_[0].boxes = boxes_[0].repeat({2, 1});
  EXPECT_EQ(fast_rcnn_inference(predictions_, proposals_, {{50, 50}}, options_)[0].boxes.size(0),
            2);
  predictions_.logits[1] = predictions_.logits[0];  // now of one class
  EXPECT_EQ(fast_rcnn_inference(predictions_, proposals_, {{50, 50}}, options_)[0].boxes.size(0),
            1);
}

TEST_F(FastRcnn, KeepsTheBestDetectionsOnly) {
  options_.detections_per_image = 1;
  predictions_.logits[1][1] = 9.0F;
  const auto found = fast_rcnn_inference(predictions_, proposals_, {{50, 50}}, options_);
  EXPECT_TRUE(expect_close(found[0].labels, longs({1}), {}));
}

TEST_F(FastRcnn, NonFiniteRoiIsLeftOut) {
  predictions_.deltas[0][5] = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(
      expect_close(fast_rcnn_inference(predictions_, proposals_, {{50, 50}}, options_)[0].labels,
                   longs({1}), {}));
}

TEST_F(FastRcnn, WithoutProposalsThereAreNoDetections) {
  const FastRcnnPredictorImpl::Output nothing{torch::zeros({0, 3}), torch::zeros({0, 8})};
  const Proposals none{.boxes = torch::zeros({0, 4}), .logits = torch::zeros({0})};
  EXPECT_EQ(fast_rcnn_inference(nothing, {none}, {{50, 50}}, options_)[0].boxes.sizes(),
            (std::vector<std::int64_t>{0, 4}));
}

class RoiSampling : public testing::Test {
 protected:
  static RoiHeads make(RoiHeadsOptions options) {
    options.in_features = {"p2"};
    options.output.num_classes = 3;
    options.box_head.fc_dim = 4;
    return RoiHeads(options, std::vector<FeatureSpec>{{"p2", 2, 4}});
  }
  Tensor proposals_ = torch::tensor({{0.0F, 0.0F, 10.0F, 10.0F}, {50.0F, 50.0F, 60.0F, 60.0F}});
  Targets targets_{.boxes = torch::tensor({{0.0F, 0.0F, 10.0F, 11.0F}}), .labels = longs({1})};
  Targets none_{.boxes = torch::zeros({0, 4}), .labels = torch::zeros({0}, torch::kLong)};
};

TEST_F(RoiSampling, GroundTruthJoinsTheProposals) {
  const SampledRois rois = make({})->sample_rois(proposals_, targets_, 1);
  EXPECT_TRUE(expect_close(rois.labels, longs({1, 1, 3}), {}));
  EXPECT_TRUE(expect_close(rois.boxes[1], targets_.boxes[0], {}));
  EXPECT_TRUE(expect_close(make({.append_gt = false})->sample_rois(proposals_, targets_, 1).labels,
                           longs({1, 3}), {}));
}

TEST_F(RoiSampling, WithoutObjectsAllAreBackground) {
  EXPECT_TRUE(expect_close(make({})->sample_rois(proposals_, none_, 1).labels, longs({3, 3}), {}));
}

TEST_F(RoiSampling, WithoutProposalsAndObjectsThereAreNone) {
  EXPECT_EQ(make({})->sample_rois(proposals_.slice(0, 0, 0), none_, 1).boxes.size(0), 0);
}

TEST_F(RoiSampling, KeepsTheBatchSize) {
  const Tensor many = test::random_boxes(300, 100, 1);
  const SampledRois rois = make({.batch_size_per_image = 64})->sample_rois(many, targets_, 1);
  EXPECT_EQ(rois.labels.numel(), 64);
}

}  // namespace
}  // namespace detforge
