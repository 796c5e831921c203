#include "detforge/models/rcnn/mask_head.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "detforge/core/error.h"
#include "detforge/models/init.h"
#include "detforge/models/rcnn/mask_branch.h"
#include "detforge/ops/mask_targets.h"
#include "support/torch/random_boxes.h"
#include "support/torch/tensors.h"

namespace detforge {
namespace {

using test::expect_close;

constexpr MaskHeadOptions kSmall{.pooler = {.resolution = 4}, .num_conv = 2, .conv_dim = 32};

MaskHead make_head(MaskHeadOptions options, std::int64_t classes = 3) {
  MaskHead head(options, 8, classes);
  initialize_weights(*head, 1);
  return head;
}

Segmentation square(double x1, double y1, double x2, double y2) {
  return {.polygons = {{x1, y1, x2, y1, x2, y2, x1, y2}}, .rle = {}};
}

TEST(MaskHead, HasDetectron2sNamesAndShapes) {
  const MaskHead head = make_head(kSmall);
  const auto state = head->named_parameters();
  EXPECT_EQ(state.size(), 8U);
  EXPECT_EQ(state["mask_fcn1.weight"].sizes(), (std::vector<std::int64_t>{32, 8, 3, 3}));
  EXPECT_EQ(state["mask_fcn2.bias"].sizes(), (std::vector<std::int64_t>{32}));
  EXPECT_EQ(state["deconv.weight"].sizes(), (std::vector<std::int64_t>{32, 32, 2, 2}));
  EXPECT_EQ(state["predictor.weight"].sizes(), (std::vector<std::int64_t>{3, 32, 1, 1}));
  MaskHeadOptions agnostic = kSmall;
  agnostic.class_agnostic = true;
  agnostic.norm = NormType::kGn;
  const auto other = make_head(agnostic)->named_parameters();
  EXPECT_EQ(other["predictor.weight"].size(0), 1);
  EXPECT_TRUE(other.contains("mask_fcn1.norm.weight"));
  EXPECT_FALSE(other.contains("mask_fcn1.bias"));
}

TEST(MaskHead, StartsAsDetectron2s) {
  const auto state = MaskHead(make_head({.conv_dim = 256}))->named_parameters();
  // c2_msra_fill: std sqrt(2 / fan_out), where the deconvolution's fan_out is counted over its
  // input
  EXPECT_NEAR(state["mask_fcn2.weight"].std().item<double>(), std::sqrt(2.0 / (256 * 9)), 2e-4);
  EXPECT_NEAR(state["deconv.weight"].std().item<double>(), std::sqrt(2.0 / (256 * 4)), 4e-4);
  EXPECT_NEAR(state["predictor.weight"].std().item<double>(), 0.001, 1e-4);
}

TEST(MaskHead, GivesTheMaskOfEachRoisOwnClass) {
  const MaskHead head = make_head(kSmall);
  const Tensor pooled = test::random_tensor({3, 8, 4, 4}, 2);
  const Tensor labels = torch::tensor({2, 0, 2});
  const Tensor logits = head->forward(pooled, labels);
  EXPECT_EQ(logits.sizes(), (std::vector<std::int64_t>{3, 8, 8}));
  for (std::int64_t r = 0; r < 3; ++r) {
    const Tensor alone = head->forward(pooled.slice(0, r, r + 1), labels.slice(0, r, r + 1))[0];
    EXPECT_TRUE(expect_close(logits[r], alone, {.rtol = 1e-4, .atol = 1e-8}));
    const Tensor other =
        head->forward(pooled.slice(0, r, r + 1), torch::full({1}, 1, torch::kLong))[0];
    EXPECT_FALSE(other.equal(alone));
  }
}

TEST(MaskHead, WithoutRoisEveryParameterGetsAGradient) {
  for (const NormType norm : {NormType::kNone, NormType::kBn, NormType::kGn, NormType::kFrozenBn}) {
    MaskHeadOptions options = kSmall;
    options.norm = norm;
    const MaskHead head = make_head(options);
    const Tensor logits =
        head->forward(torch::zeros({0, 8, 4, 4}), torch::zeros({0}, torch::kLong));
    EXPECT_EQ(logits.sizes(), (std::vector<std::int64_t>{0, 8, 8}));
    logits.sum().backward();
    for (const auto& item : head->named_parameters()) {
      ASSERT_TRUE(item.value().grad().defined()) << item.key();
      EXPECT_EQ(item.value().grad().abs().sum().item<float>(), 0.0F) << item.key();
    }
  }
}

class MaskBranchTest : public testing::Test {
 protected:
  MaskBranchTest() { initialize_weights(*MaskHead(branch_.head()), 1); }

  /// Two objects of classes 1 and 2; the second ROI is background.
  static SampledRois rois() {
    return {
        .boxes = torch::tensor(
            {{4.0F, 4.0F, 20.0F, 20.0F}, {0.0F, 0.0F, 30.0F, 30.0F}, {8.0F, 2.0F, 30.0F, 28.0F}}),
        .labels = torch::tensor({1, 3, 2}),
        .gt_boxes = torch::zeros({3, 4}),
        .gt_index = torch::tensor({1, 0, 0})};
  }
  static Targets targets() {
    return {.boxes = torch::tensor({{9.0F, 3.0F, 29.0F, 27.0F}, {5.0F, 5.0F, 20.0F, 20.0F}}),
            .labels = torch::tensor({2, 1}),
            .masks = {square(9, 3, 29, 15), square(5, 5, 20, 20)}};
  }

  MaskBranch branch_{kSmall, {4}, 8, 3};
  std::vector<Tensor> maps_{test::random_tensor({1, 8, 8, 8}, 3)};
};

TEST_F(MaskBranchTest, LossIsTheMeanCrossEntropyOverForeground) {
  const SampledRois sampled = rois();
  const Tensor chosen = torch::tensor({0, 2});
  const Tensor boxes = sampled.boxes.index_select(0, chosen);
  const Tensor probability =
      branch_.predict(maps_, {boxes}, {torch::tensor({1, 2})})[0].to(torch::kDouble);
  const Tensor target =
      mask_targets(targets().masks, boxes, torch::tensor({1, 0}), 8).to(torch::kDouble);
  const Tensor expected =
      -(target * probability.log() + (1 - target) * (1 - probability).log()).mean();
  EXPECT_NEAR(branch_.loss(maps_, {sampled}, {targets()}).value.item<double>(), expected.item<double>(),
              1e-6);
}

TEST_F(MaskBranchTest, ObjectsWithoutSegmentationAreLeftOut) {
  Targets partly = targets();
  partly.masks[0] = {};
  SampledRois first_only = rois();
  first_only.boxes = first_only.boxes.slice(0, 0, 1);
  first_only.labels = first_only.labels.slice(0, 0, 1);
  first_only.gt_index = first_only.gt_index.slice(0, 0, 1);
  EXPECT_NEAR(branch_.loss(maps_, {rois()}, {partly}).value.item<double>(),
              branch_.loss(maps_, {first_only}, {targets()}).value.item<double>(), 1e-7);
}

TEST_F(MaskBranchTest, WithoutForegroundTheLossIsZeroAndConnected) {
  SampledRois background = rois();
  background.labels.fill_(3);
  Targets none = targets();
  none.masks.assign(2, {});
  for (const Targets& target : {targets(), none}) {
    const Tensor loss = branch_.loss(maps_, {background}, {target}).value;
    EXPECT_EQ(loss.item<float>(), 0.0F);
    loss.backward();
    for (const auto& item : MaskHead(branch_.head())->named_parameters()) {
      ASSERT_TRUE(item.value().grad().defined()) << item.key();
    }
  }
  EXPECT_EQ(branch_.loss(maps_, {rois()}, {none}).value.item<float>(), 0.0F);
}

TEST_F(MaskBranchTest, MissingMasksAreAnError) {
  Targets unloaded = targets();
  unloaded.masks.clear();
  EXPECT_THROW(branch_.loss(maps_, {rois()}, {unloaded}), Error);
}

TEST_F(MaskBranchTest, PredictsInPiecesAsAtOnce) {
  const Tensor boxes = test::random_boxes(150, 32, 9);
  const Tensor labels = torch::arange(150).remainder(3);
  const std::vector<Tensor> maps{test::random_tensor({2, 8, 8, 8}, 3)};
  const std::vector<Tensor> masks =
      branch_.predict(maps, {boxes.slice(0, 0, 0), boxes}, {labels.slice(0, 0, 0), labels});
  EXPECT_EQ(masks[0].sizes(), (std::vector<std::int64_t>{0, 8, 8}));
  EXPECT_EQ(masks[1].sizes(), (std::vector<std::int64_t>{150, 8, 8}));
  const Tensor alone = branch_.predict(maps, {boxes.slice(0, 0, 0), boxes.slice(0, 100, 101)},
                                       {labels.slice(0, 0, 0), labels.slice(0, 100, 101)})[1];
  EXPECT_TRUE(expect_close(masks[1].slice(0, 100, 101), alone, {.atol = 1e-6}));
}

}  // namespace
}  // namespace detforge
