#include "detforge/models/rcnn/rpn.h"

#include <limits>
#include <map>

#include <gtest/gtest.h>
#include <torch/types.h>

#include "detforge/core/error.h"
#include "detforge/models/top_k.h"
#include "support/torch/random_boxes.h"
#include "support/torch/tensors.h"

namespace detforge {
namespace {

using test::expect_close;

ImageBatch one_image(ImageSize size) {
  return {.images = torch::zeros({1, 3, size.height, size.width}),
          .sizes = {size},
          .original_sizes = {size},
          .image_ids = {7},
          .paths = {"seven.jpg"},
          .rng_keys = {3}};
}

// One level whose deltas are all zero: every box is its anchor.
std::vector<LevelPredictions> level_of(const Tensor& logits, const Tensor& anchors) {
  return {{.logits = logits.unsqueeze(0),
           .deltas = torch::zeros({1, anchors.size(0), 4}),
           .anchors = anchors}};
}

const BoxCoder kCoder({1, 1, 1, 1});

TEST(TopK, BreaksTiesByIndex) {
  const Tensor scores = torch::tensor({1.0F, 3.0F, 2.0F, 3.0F, 2.0F});
  const Tensor expected = torch::tensor(std::vector<std::int64_t>{1, 3, 2}, torch::kLong);
  EXPECT_TRUE(expect_close(top_k_indices(scores, 3), expected, {}));
  EXPECT_EQ(top_k_indices(scores, 100).numel(), 5);
  EXPECT_EQ(top_k_indices(torch::zeros({0}), 3).numel(), 0);
}

TEST(TopK, PutsNanFirst) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(top_k_indices(torch::tensor({1.0F, nan, 5.0F}), 1)[0].item<std::int64_t>(), 1);
}

TEST(FindProposals, ClipsRemovesEmptySuppressesAndSorts) {
  const Tensor anchors =
      torch::tensor({{0.0F, 0.0F, 10.0F, 10.0F},  // suppressed by the next one (IoU 0.9)
                     {0.0F, 0.0F, 10.0F, 9.0F},
                     {50.0F, 50.0F, 70.0F, 70.0F},   // clipped to 60 x 60
                     {80.0F, 0.0F, 90.0F, 10.0F}});  // outside: empty after clipping
  const Tensor logits = torch::tensor({1.0F, 2.0F, 3.0F, 9.0F});
  const auto found = find_top_proposals(level_of(logits, anchors), one_image({60, 60}), kCoder, {});
  const Tensor expected = torch::tensor({{50.0F, 50.0F, 60.0F, 60.0F}, {0.0F, 0.0F, 10.0F, 9.0F}});
  EXPECT_TRUE(expect_close(found[0].boxes, expected, {}));
  EXPECT_TRUE(expect_close(found[0].logits, torch::tensor({3.0F, 2.0F}), {}));
}

TEST(FindProposals, MinSizeMayLeaveNone) {
  const auto levels = level_of(torch::zeros({20}), test::random_boxes(20, 60, 1));
  EXPECT_EQ(
      find_top_proposals(levels, one_image({60, 60}), kCoder, {.min_size = 100})[0].boxes.size(0),
      0);
}

TEST(FindProposals, NonFiniteIsRemovedOrRefusedWithTheImage) {
  const auto levels =
      level_of(torch::tensor({1.0F, std::numeric_limits<float>::quiet_NaN()}),
               torch::tensor({{0.0F, 0.0F, 9.0F, 9.0F}, {20.0F, 0.0F, 30.0F, 9.0F}}));
  EXPECT_EQ(find_top_proposals(levels, one_image({60, 60}), kCoder, {})[0].boxes.size(0), 1);
  try {
    find_top_proposals(levels, one_image({60, 60}), kCoder, {.reject_non_finite = true});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("seven.jpg"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("1 of 2 RPN proposals"), std::string::npos)
        << error.what();
  }
}

TEST(RpnHead, SeveralConvolutionsAreNumbered) {
  RpnHead head(RpnHeadOptions{.in_channels = 8, .anchors_per_cell = 3, .conv_dims = {-1, 16}});
  EXPECT_EQ(head->named_parameters()["conv.conv1.weight"].size(0), 16);
  EXPECT_EQ(head->named_parameters()["anchor_deltas.weight"].sizes(),
            (std::vector<std::int64_t>{12, 16, 1, 1}));
}

class RpnLabels : public testing::Test {
 protected:
  static Rpn make(RpnOptions options) {
    options.in_features = {"p2"};
    options.anchors = {.sizes = {{8}}, .aspect_ratios = {{1.0}}};
    return Rpn(options, std::vector<FeatureSpec>{{"p2", 4, 4}});
  }
  Tensor anchors_ =
      AnchorGenerator({.sizes = {{8}}, .aspect_ratios = {{1.0}}}, {4}).grid({{8, 8}})[0];
  ImageBatch images_ = one_image({32, 32});
  Targets one_object_{.boxes = torch::tensor({{4.0F, 4.0F, 12.0F, 12.0F}}),
                      .labels = torch::zeros({1}, torch::kLong)};
};

TEST_F(RpnLabels, AnchorOnTheObjectIsPositiveAndFarOnesNegative) {
  const AnchorTargets targets = make({})->label_anchors(anchors_, images_, 0, one_object_);
  EXPECT_EQ((targets.labels == 1).sum().item<std::int64_t>(), 1);  // centre (8, 8)
  EXPECT_EQ(targets.labels[2 * 8 + 2].item<std::int64_t>(), 1);
  EXPECT_EQ(targets.labels[63].item<std::int64_t>(), 0);
  EXPECT_TRUE(expect_close(targets.boxes, one_object_.boxes, {}));  // one positive
}

TEST_F(RpnLabels, BoundaryThresholdIgnoresAnchorsThatLeaveTheImage) {
  const AnchorTargets targets =
      make({.boundary_threshold = 0})->label_anchors(anchors_, images_, 0, one_object_);
  EXPECT_EQ(targets.labels[0].item<std::int64_t>(), -1);  // [-4,-4,4,4]
  EXPECT_EQ(targets.labels[1 * 8 + 1].item<std::int64_t>(), 0);
}

TEST_F(RpnLabels, SamplesAtMostTheBatchSize) {
  const RpnOptions options{.sampling = {.batch_size = 10, .positive_fraction = 0.5}};
  const AnchorTargets targets = make(options)->label_anchors(anchors_, images_, 0, one_object_);
  EXPECT_EQ((targets.labels >= 0).sum().item<std::int64_t>(), 10);
}

TEST_F(RpnLabels, WithoutObjectsAllSampledAreNegative) {
  const Targets none{.boxes = torch::zeros({0, 4}), .labels = torch::zeros({0}, torch::kLong)};
  const AnchorTargets targets = make({})->label_anchors(anchors_, images_, 0, none);
  EXPECT_EQ(targets.labels.sum().item<std::int64_t>(), 0);
  EXPECT_EQ(targets.boxes.sizes(), (std::vector<std::int64_t>{0, 4}));
}

// Two levels, two images with objects.
struct RpnScene {
  ImageBatch images{.images = torch::zeros({2, 3, 64, 96}),
                    .sizes = {{64, 96}, {60, 70}},
                    .original_sizes = {{64, 96}, {60, 70}},
                    .image_ids = {0, 1},
                    .paths = {"a.jpg", "b.jpg"},
                    .rng_keys = {5, 6}};
  std::vector<Targets> targets{{.boxes = test::random_boxes(4, 60, 3), .labels = {}},
                               {.boxes = test::random_boxes(2, 60, 4), .labels = {}}};
};

struct RpnRun {
  bool is_sparse = false;
  std::map<std::string, Tensor> losses, gradients;
};

// The same weights, maps and samples for every `options` of the same head.
RpnRun run_rpn(RpnOptions options, const RpnScene& scene) {
  options.in_features = {"p2", "p3"};
  options.anchors = {.sizes = {{16}, {32}}, .aspect_ratios = {{0.5, 1.0, 2.0}}};
  Rpn rpn(options, std::vector<FeatureSpec>{{"p2", 8, 4}, {"p3", 8, 8}});
  std::vector<std::pair<std::string, Tensor>> leaves{
      {"p2", test::random_tensor({2, 8, 16, 24}, 1).requires_grad_()},
      {"p3", test::random_tensor({2, 8, 8, 12}, 2).requires_grad_()}};
  std::uint64_t seed = 10;
  for (const auto& item : rpn->named_parameters()) {
    const torch::NoGradGuard no_grad;
    item.value().copy_(test::random_tensor(item.value().sizes().vec(), ++seed) * 0.2);
    leaves.emplace_back(item.key(), item.value());
  }
  const RpnImpl::Output output = rpn->forward(scene.images, {leaves[0].second, leaves[1].second});
  RpnRun run;
  run.is_sparse = !output.sparse_maps.empty();
  Tensor total = torch::zeros({});
  for (const auto& [name, loss, count] : rpn->losses(output, scene.images, scene.targets)) {
    run.losses[name] = loss.detach();
    total = total + loss;
  }
  total.backward();
  for (const auto& [name, leaf] : leaves) {
    run.gradients[name] = leaf.grad();
  }
  return run;
}

TEST(SparseRpnProperty, LossesAndGradientsEqualThoseOfTheDenseHead) {
  const RpnScene scene;
  for (const std::int64_t batch_size : {40, 4000}) {  // 4000: every anchor that is not ignored
    RpnOptions options{.sampling = {.batch_size = batch_size}, .sparse_fraction = 0};
    const RpnRun dense = run_rpn(options, scene);
    options.sparse_fraction = 1e9;
    const RpnRun sparse = run_rpn(options, scene);
    ASSERT_FALSE(dense.is_sparse);
    ASSERT_TRUE(sparse.is_sparse);
    EXPECT_GT(dense.losses.at("loss_rpn_loc").item<float>(), 0.0F);
    for (const auto& [name, loss] : dense.losses) {
      EXPECT_TRUE(expect_close(sparse.losses.at(name), loss, {.rtol = 1e-5})) << name;
    }
    EXPECT_EQ(dense.gradients.size(), 8U);
    for (const auto& [name, gradient] : dense.gradients) {
      EXPECT_GT(gradient.norm().item<float>(), 0.0F) << name;
      EXPECT_TRUE(test::expect_close_l2(sparse.gradients.at(name), gradient, 1e-5)) << name;
    }
  }
}

TEST(SparseRpn, WithoutSampledAnchorsEveryGradientIsZero) {
  const RpnRun run = run_rpn({.sampling = {.batch_size = 0}}, RpnScene{});
  ASSERT_TRUE(run.is_sparse);
  for (const auto& [name, gradient] : run.gradients) {
    ASSERT_TRUE(gradient.defined()) << name;
    EXPECT_EQ(gradient.abs().max().item<float>(), 0.0F) << name;
  }
}

TEST(SparseRpn, OnlyWhereItPaysAndOneConvolutionDecides) {
  const RpnScene scene;  // 16 * 24 + 8 * 12 = 480 cells
  EXPECT_TRUE(run_rpn({.sampling = {.batch_size = 119}}, scene).is_sparse);
  EXPECT_FALSE(run_rpn({.sampling = {.batch_size = 120}}, scene).is_sparse);
  EXPECT_FALSE(run_rpn({.conv_dims = {-1, -1}, .sampling = {.batch_size = 10}}, scene).is_sparse);
}

}  // namespace
}  // namespace detforge
