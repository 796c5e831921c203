#include "detforge/models/rcnn/faster_rcnn.h"

#include <map>

#include <gtest/gtest.h>
#include <torch/types.h>

#include "detforge/core/error.h"
#include "support/torch/random_boxes.h"
#include "support/torch/small_resnet.h"
#include "support/torch/tensors.h"

namespace detforge {
namespace {

FasterRcnnOptions small_options() {
  FasterRcnnOptions options;
  options.resnet = test::small_resnet();
  options.fpn = {.out_channels = 64};
  options.rpn.anchors.sizes = {{16}, {32}, {64}, {128}, {256}};
  options.rpn.sampling.batch_size = 64;
  options.rpn.train = {.pre_nms_top_k = 200, .post_nms_top_k = 100};
  options.rpn.test = {.pre_nms_top_k = 200, .post_nms_top_k = 100};
  options.roi_heads.batch_size_per_image = 64;
  options.roi_heads.box_head.fc_dim = 64;
  options.roi_heads.output.num_classes = 2;
  return options;
}

Targets no_objects() {
  return {.boxes = torch::zeros({0, 4}), .labels = torch::zeros({0}, torch::kLong)};
}

// Grey noise with one bright square (class 0) or one dark bar (class 1) per image.
struct Scene {
  ImageBatch images;
  std::vector<Targets> targets;
};

Scene make_scene(std::int64_t count) {
  Scene scene;
  scene.images.images = test::random_tensor({count, 3, 64, 96}, 17) * 20;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t label = i % 2;
    const std::int64_t x = 8 + 12 * i;
    const std::int64_t y = 6 + 5 * i;
    const std::int64_t width = label == 0 ? 24 : 36;
    const std::int64_t height = label == 0 ? 24 : 16;
    scene.images.images[i]
        .slice(1, y, y + height)
        .slice(2, x, x + width)
        .fill_(label == 0 ? 100 : -100);
    scene.targets.push_back(
        {.boxes = torch::tensor({{static_cast<float>(x), static_cast<float>(y),
                                  static_cast<float>(x + width), static_cast<float>(y + height)}}),
         .labels = torch::full({1}, label, torch::kLong)});
    scene.images.sizes.push_back({64, 96});
    scene.images.image_ids.push_back(i);
    scene.images.paths.push_back("scene" + std::to_string(i));
    scene.images.rng_keys.push_back(static_cast<std::uint64_t>(i));
  }
  scene.images.original_sizes = scene.images.sizes;
  return scene;
}

Tensor total_of(const LossMap& losses) {
  Tensor total = torch::zeros({});
  for (const auto& [name, loss, count] : losses) {
    total = total + loss;
  }
  return total;
}

void expect_every_parameter_has_a_finite_gradient(FasterRcnn& model) {
  for (const auto& item : model.named_parameters()) {
    if (item.value().requires_grad()) {
      ASSERT_TRUE(item.value().grad().defined()) << item.key();
      EXPECT_TRUE(item.value().grad().isfinite().all().item<bool>()) << item.key();
    }
  }
}

TEST(FasterRcnn, WithoutAnyObjectEveryParameterGetsAGradient) {
  FasterRcnn model(small_options(), 1);
  Scene scene = make_scene(2);
  const LossMap losses = model.losses(scene.images, {no_objects(), no_objects()});
  EXPECT_EQ(losses[1].value.item<float>(), 0.0F);  // loss_box_reg
  EXPECT_EQ(losses[3].value.item<float>(), 0.0F);  // loss_rpn_loc
  total_of(losses).backward();
  expect_every_parameter_has_a_finite_gradient(model);
}

TEST(FasterRcnn, WithoutAnyProposalEveryParameterGetsAGradient) {
  FasterRcnnOptions options = small_options();
  options.rpn.train.min_size = 1e6;
  for (const bool append_gt : {true, false}) {
    options.roi_heads.append_gt = append_gt;
    FasterRcnn model(options, 1);
    Scene scene = make_scene(2);
    total_of(model.losses(scene.images, {scene.targets[0], no_objects()})).backward();
    expect_every_parameter_has_a_finite_gradient(model);
  }
}

TEST(FasterRcnn, TinyImageWithOneFullImageObject) {
  FasterRcnn model(small_options(), 1);
  Scene scene = make_scene(1);
  scene.images.images = scene.images.images.slice(2, 0, 32).slice(3, 0, 32).contiguous();
  scene.images.sizes = {{32, 32}};
  scene.targets[0].boxes = torch::tensor({{0.0F, 0.0F, 32.0F, 32.0F}});
  total_of(model.losses(scene.images, scene.targets)).backward();
  expect_every_parameter_has_a_finite_gradient(model);
}

TEST(FasterRcnn, WithoutProposalsOrScoresThereAreNoDetections) {
  const torch::NoGradGuard no_grad;
  FasterRcnnOptions options = small_options();
  options.rpn.test.min_size = 1e6;
  options.roi_heads.output.score_threshold = 0.99;
  FasterRcnn model(options, 1);
  model.eval();
  for (const Detections& found : model.predict(make_scene(2).images)) {
    EXPECT_EQ(found.boxes.sizes(), (std::vector<std::int64_t>{0, 4}));
    EXPECT_EQ(found.labels.numel(), 0);
  }
}

TEST(FasterRcnn, NonFiniteWeightsAreReportedInTraining) {
  FasterRcnn model(small_options(), 1);
  {
    const torch::NoGradGuard no_grad;
    model.named_parameters()["proposal_generator.rpn_head.conv.weight"].fill_(NAN);
  }
  const Scene scene = make_scene(1);
  EXPECT_THROW(model.losses(scene.images, scene.targets), Error);
}

TEST(FasterRcnn, RefusesClassesAndSizesThatDoNotFit) {
  FasterRcnn model(small_options(), 1);
  Scene scene = make_scene(1);
  scene.targets[0].labels.fill_(2);
  EXPECT_THROW(model.losses(scene.images, scene.targets), Error);
  scene.images.images = torch::zeros({1, 3, 50, 96});
  EXPECT_THROW(model.predict(scene.images), Error);
}

TEST(FasterRcnnProperty, SameSeedAndKeysGiveBitEqualLossesAndGradients) {
  const Scene scene = make_scene(2);
  std::vector<std::map<std::string, Tensor>> runs(2);
  for (auto& results : runs) {
    FasterRcnn model(small_options(), 4);
    const LossMap losses = model.losses(scene.images, scene.targets);
    for (const LossTerm& loss : losses) {
      results.emplace(loss.name, loss.value);
    }
    total_of(losses).backward();
    for (const auto& item : model.named_parameters()) {
      results.emplace("gradient of " + item.key(), item.value().grad());
    }
  }
  EXPECT_GT(runs[0].size(), 4U + 60U);  // four losses, and every parameter of a ResNet-18 and more
  for (const auto& [name, value] : runs[0]) {
    EXPECT_TRUE(value.equal(runs[1].at(name))) << name;
  }
}

TEST(FasterRcnnProperty, BatchedDetectionsEqualOneByOne) {
  const torch::NoGradGuard no_grad;
  FasterRcnn model(small_options(), 1);
  model.eval();
  ImageBatch batch = make_scene(3).images;
  batch.sizes = {{64, 96}, {50, 70}, {40, 90}};  // all are padded to 64 x 96, alone as well
  for (std::size_t i = 0; i < 3; ++i) {
    const Tensor image = batch.images[static_cast<std::int64_t>(i)];
    image.slice(1, batch.sizes[i].height).zero_();
    image.slice(2, batch.sizes[i].width).zero_();
  }
  const auto together = model.predict(batch);
  for (std::size_t i = 0; i < 3; ++i) {
    const auto first = static_cast<std::int64_t>(i);
    const ImageBatch one{.images = batch.images.slice(0, first, first + 1),
                         .sizes = {batch.sizes[i]},
                         .original_sizes = {batch.sizes[i]},
                         .image_ids = {first},
                         .paths = {batch.paths[i]},
                         .rng_keys = {batch.rng_keys[i]}};
    const Detections alone = model.predict(one)[0];
    EXPECT_GT(alone.boxes.size(0), 0);
    EXPECT_TRUE(test::expect_close(together[i].scores, alone.scores, {.atol = 1e-5}));
    EXPECT_TRUE(test::expect_close(together[i].boxes, alone.boxes, {.atol = 1e-3}));
    EXPECT_TRUE(test::expect_close(together[i].labels, alone.labels, {}));
  }
}

TEST(FasterRcnnSlow, OverfitsFourImages) {
  FasterRcnn model(small_options(), 2);
  Scene scene = make_scene(4);
  // One step's loss depends on its sample (0.13 to 0.21 at the end), so the last ones are averaged.
  constexpr int kSteps = 240;
  constexpr int kAveraged = 20;
  double loss = 0;
  for (int step = 0; step < kSteps; ++step) {
    for (std::size_t i = 0; i < 4; ++i) {
      scene.images.rng_keys[i] = static_cast<std::uint64_t>(step) * 4 + i;
    }
    model.zero_grad();
    const Tensor total = total_of(model.losses(scene.images, scene.targets));
    total.backward();
    loss += step >= kSteps - kAveraged ? total.item<double>() / kAveraged : 0.0;
    const torch::NoGradGuard no_grad;
    for (Tensor& parameter : model.parameters()) {
      parameter.sub_(parameter.grad() * 0.02);
    }
  }
  EXPECT_LT(loss, 0.2);  // 0.3 after 120 steps, 0.2 after 200
  const torch::NoGradGuard no_grad;
  model.eval();
  const auto found = model.predict(scene.images);
  for (std::size_t i = 0; i < 4; ++i) {
    ASSERT_GT(found[i].boxes.size(0), 0);
    EXPECT_EQ(found[i].labels[0].item<std::int64_t>(),
              scene.targets[i].labels[0].item<std::int64_t>());
    EXPECT_GT(found[i].scores[0].item<float>(), 0.8F);
    EXPECT_LT((found[i].boxes[0] - scene.targets[i].boxes[0]).abs().max().item<float>(), 4.0F);
  }
}

}  // namespace
}  // namespace detforge
