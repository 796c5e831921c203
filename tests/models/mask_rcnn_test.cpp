#include <map>

#include <gtest/gtest.h>
#include <torch/types.h>

#include "detforge/core/error.h"
#include "detforge/models/rcnn/faster_rcnn.h"
#include "detforge/structures/polygon_raster.h"
#include "support/torch/random_boxes.h"
#include "support/torch/small_resnet.h"
#include "support/torch/tensors.h"

namespace detforge {
namespace {

FasterRcnnOptions small_options() {
  FasterRcnnOptions options;
  options.resnet = test::small_resnet();
  options.fpn = {.out_channels = 64};
  options.rpn.sampling.batch_size = 64;
  options.rpn.train = {.pre_nms_top_k = 200, .post_nms_top_k = 100};
  options.rpn.test = {.pre_nms_top_k = 100, .post_nms_top_k = 50};
  options.roi_heads.batch_size_per_image = 64;
  options.roi_heads.box_head.fc_dim = 32;
  options.roi_heads.output.num_classes = 2;
  options.roi_heads.mask_head = MaskHeadOptions{.num_conv = 2, .conv_dim = 32};
  return options;
}

struct Scene {
  ImageBatch images;
  std::vector<Targets> targets;
};

/// Two noisy images of 64 x 96; the first has an object of each class, the second none.
Scene make_scene() {
  Scene scene;
  scene.images.images = test::random_tensor({2, 3, 64, 96}, 17) * 20;
  scene.images.sizes = {{64, 96}, {64, 96}};
  scene.images.original_sizes = scene.images.sizes;
  scene.images.image_ids = {0, 1};
  scene.images.paths = {"a", "b"};
  scene.images.rng_keys = {0, 1};
  const std::vector<double> house{8, 30, 20, 10, 32, 30, 32, 50, 8, 50};
  scene.targets.push_back(
      {.boxes = torch::tensor({{8.0F, 10.0F, 32.0F, 50.0F}, {40.0F, 8.0F, 90.0F, 60.0F}}),
       .labels = torch::tensor({0, 1}),
       .masks = {{.polygons = {house}, .rle = {}},
                 {.polygons = {},
                  .rle = polygon_mask(std::vector<double>{40, 8, 90, 8, 60, 60}, {64, 96})}}});
  scene.targets.push_back(
      {.boxes = torch::zeros({0, 4}), .labels = torch::zeros({0}, torch::kLong)});
  return scene;
}

Tensor total_of(const LossMap& losses) {
  Tensor total = torch::zeros({});
  for (const auto& [name, loss, count] : losses) {
    total = total + loss;
  }
  return total;
}

void expect_every_parameter_has_a_finite_gradient(const FasterRcnn& model) {
  for (const auto& item : model.named_parameters()) {
    ASSERT_TRUE(item.value().grad().defined()) << item.key();
    EXPECT_TRUE(item.value().grad().isfinite().all().item<bool>()) << item.key();
  }
}

TEST(MaskRcnn, LossesNameTheMaskAndReachEveryParameter) {
  for (const NormType norm : {NormType::kNone, NormType::kGn, NormType::kBn}) {
    FasterRcnnOptions options = small_options();
    options.fpn.norm = norm;
    options.roi_heads.box_head.num_conv = 1;
    options.roi_heads.box_head.norm = norm;
    options.roi_heads.mask_head->norm = norm;
    FasterRcnn model(options, 1);
    const Scene scene = make_scene();
    const LossMap losses = model.losses(scene.images, scene.targets);
    EXPECT_EQ(losses[2].name, "loss_mask");
    EXPECT_NEAR(losses[2].value.item<double>(), 0.693, 0.05);  // log 2: nothing is learnt yet
    total_of(losses).backward();
    expect_every_parameter_has_a_finite_gradient(model);
  }
}

TEST(MaskRcnn, WithoutAnyObjectTheMaskLossIsZeroAndConnected) {
  FasterRcnn model(small_options(), 1);
  const Scene scene = make_scene();
  const LossMap losses = model.losses(scene.images, {scene.targets[1], scene.targets[1]});
  EXPECT_EQ(losses[2].value.item<float>(), 0.0F);
  total_of(losses).backward();
  expect_every_parameter_has_a_finite_gradient(model);
}

TEST(MaskRcnn, MasksComeWithTheDetectionsAndWithBoxesOfOthers) {
  const torch::NoGradGuard no_grad;
  FasterRcnn model(small_options(), 1);
  model.eval();
  const Scene scene = make_scene();
  const std::vector<Detections> found = model.predict(scene.images);
  const std::vector<Detections> boxes = model.predict_boxes(scene.images);
  const std::vector<Tensor> masks = model.predict_masks(scene.images, found);
  for (std::size_t i = 0; i < 2; ++i) {
    ASSERT_GT(found[i].boxes.size(0), 0);
    EXPECT_EQ(found[i].masks.sizes(), (std::vector<std::int64_t>{found[i].boxes.size(0), 28, 28}));
    EXPECT_TRUE(masks[i].equal(found[i].masks));
    EXPECT_TRUE(boxes[i].boxes.equal(found[i].boxes));
    EXPECT_FALSE(boxes[i].masks.defined());
  }
}

TEST(MaskRcnn, WithoutDetectionsThereAreNoMasks) {
  const torch::NoGradGuard no_grad;
  FasterRcnnOptions options = small_options();
  options.roi_heads.output.score_threshold = 0.99;
  FasterRcnn model(options, 1);
  model.eval();
  EXPECT_EQ(model.predict(make_scene().images)[0].masks.sizes(),
            (std::vector<std::int64_t>{0, 28, 28}));
}

TEST(MaskRcnn, OfFasterRcnnNoMasksCanBeAsked) {
  const torch::NoGradGuard no_grad;
  FasterRcnnOptions options = small_options();
  options.roi_heads.mask_head.reset();
  FasterRcnn model(options, 1);
  model.eval();
  EXPECT_FALSE(model.has_masks());
  const Scene scene = make_scene();
  const std::vector<Detections> found = model.predict(scene.images);
  EXPECT_FALSE(found[0].masks.defined());
  EXPECT_THROW(model.predict_masks(scene.images, found), Error);
}

TEST(MaskRcnnProperty, SameSeedAndKeysGiveBitEqualLossesAndGradients) {
  const Scene scene = make_scene();
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
  for (const auto& [name, value] : runs[0]) {
    EXPECT_TRUE(value.equal(runs[1].at(name))) << name;
  }
}

}  // namespace
}  // namespace detforge
