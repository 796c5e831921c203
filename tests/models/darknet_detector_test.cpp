#include "detforge/models/darknet/darknet_detector.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "detforge/core/error.h"

namespace detforge {
namespace {

/// 32x32 input; strides 8 and 4; three classes.
constexpr const char* kCfg = R"([net]
width=32
height=32
[convolutional]
filters=8
size=3
stride=2
pad=1
batch_normalize=1
activation=leaky
[convolutional]
filters=8
size=3
stride=2
pad=1
batch_normalize=1
activation=leaky
[dropout]
probability=.1
[convolutional]
filters=16
size=3
stride=2
pad=1
batch_normalize=1
activation=leaky
[convolutional]
filters=16
activation=linear
[yolo]
anchors=6,6, 12,12, 20,20
mask=1,2
classes=3
ignore_thresh=.6
[route]
layers=2
[convolutional]
filters=8
activation=linear
[yolo]
anchors=6,6, 12,12, 20,20
mask=0
classes=3
ignore_thresh=.6
)";

DarknetDetector make_detector() {
  return DarknetDetector({.cfg = parse_darknet_cfg(kCfg)}, 11);
}

ImageBatch batch_of(std::int64_t count) {
  torch::manual_seed(2);
  ImageBatch batch;
  batch.images = torch::rand({count, 3, 32, 32});
  batch.sizes.assign(static_cast<std::size_t>(count), {32, 32});
  batch.original_sizes = batch.sizes;
  batch.paths.assign(static_cast<std::size_t>(count), "picture.jpg");
  for (std::int64_t i = 0; i < count; ++i) {
    batch.image_ids.push_back(i);
    batch.rng_keys.push_back(static_cast<std::uint64_t>(i));
  }
  return batch;
}

Targets no_objects() {
  return {.boxes = torch::zeros({0, 4}), .labels = torch::zeros({0}, torch::kLong)};
}

Targets two_objects() {
  return {.boxes = torch::tensor({{2.0F, 3.0F, 8.0F, 9.0F}, {10.0F, 6.0F, 30.0F, 28.0F}}),
          .labels = torch::tensor({0, 2}, torch::kLong)};
}

Tensor total(const LossMap& losses) {
  Tensor sum = torch::zeros({});
  for (const auto& [name, loss, count] : losses) {
    sum = sum + loss;
  }
  return sum;
}

TEST(DarknetDetector, EveryParameterGetsAGradientWhateverTheObjects) {
  for (const bool has_objects : {true, false}) {
    DarknetDetector detector = make_detector();
    const LossMap losses =
        detector.losses(batch_of(2), {has_objects ? two_objects() : no_objects(), no_objects()});
    total(losses).backward();
    for (const auto& parameter : detector.named_parameters()) {
      EXPECT_TRUE(parameter.value().grad().defined()) << parameter.key();
      EXPECT_TRUE(parameter.value().grad().isfinite().all().item<bool>()) << parameter.key();
    }
  }
}

TEST(DarknetDetector, LearnsOnePicture) {
  DarknetDetector detector = make_detector();
  const ImageBatch images = batch_of(1);
  const std::vector<Targets> targets = {two_objects()};
  const double before = total(detector.losses(images, targets)).item<double>();
  for (int step = 0; step < 300; ++step) {
    total(detector.losses(images, targets)).backward();
    const torch::NoGradGuard no_grad;
    for (Tensor& parameter : detector.parameters()) {
      parameter.sub_(parameter.grad(), 0.01);
      parameter.mutable_grad().reset();
    }
  }
  EXPECT_LT(total(detector.losses(images, targets)).item<double>(), before / 4);
  detector.eval();
  const torch::NoGradGuard no_grad;
  const Detections found = detector.predict(images)[0];
  ASSERT_GE(found.scores.size(0), 2);
  EXPECT_GT(found.scores[1].item<double>(), 0.3);
  const std::vector<std::int64_t> best = {found.labels[0].item<std::int64_t>(),
                                          found.labels[1].item<std::int64_t>()};
  EXPECT_EQ(std::set<std::int64_t>(best.begin(), best.end()), (std::set<std::int64_t>{0, 2}));
}

TEST(DarknetDetector, StartsWithTheSameWeightsForTheSameSeed) {
  const DarknetDetector a = make_detector(), b = make_detector();
  for (const auto& parameter : a.named_parameters()) {
    EXPECT_TRUE(parameter.value().equal(b.named_parameters()[parameter.key()])) << parameter.key();
  }
  EXPECT_EQ(a.named_parameters().keys().front(), "layers.0.conv.weight");
}

TEST(DarknetDetector, RefusesSizesThatGiveNoWholeMaps) {
  DarknetDetector detector = make_detector();
  EXPECT_EQ(detector.size_divisibility(), 8);
  ImageBatch images = batch_of(1);
  images.images = torch::zeros({1, 3, 32, 36});
  EXPECT_THROW(detector.predict(images), Error);
}

TEST(DarknetDetector, RefusesLabelsOutsideItsClasses) {
  DarknetDetector detector = make_detector();
  Targets targets = two_objects();
  targets.labels[1] = 3;
  EXPECT_THROW(detector.losses(batch_of(1), {targets}), Error);
}

}  // namespace
}  // namespace detforge
