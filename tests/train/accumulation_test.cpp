// A batch worked through in parts trains as the whole batch does (frozen statistics).
#include <algorithm>
#include <functional>
#include <memory>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "detforge/distributed/single_process.h"
#include "detforge/models/rcnn/faster_rcnn.h"
#include "detforge/models/yolo/yolov3.h"
#include "detforge/train/model_state.h"
#include "detforge/train/split_batch.h"
#include "detforge/train/step.h"
#include "support/torch/random_boxes.h"
#include "support/torch/small_resnet.h"

namespace detforge {
namespace {

constexpr std::int64_t kImages = 8;
constexpr std::int64_t kEmptyImage = 5;  // in the second half

FasterRcnnOptions small_options(NormType norm) {
  FasterRcnnOptions options;
  options.resnet = test::small_resnet();
  options.resnet.norm = norm;
  options.fpn = {.out_channels = 64};
  options.rpn.anchors.sizes = {{16}, {32}, {64}, {128}, {256}};
  options.rpn.sampling.batch_size = 64;
  options.rpn.train = {.pre_nms_top_k = 100, .post_nms_top_k = 40};
  options.roi_heads.batch_size_per_image = 64;  // more than there are: numbers differ by image
  options.roi_heads.box_head.fc_dim = 64;
  options.roi_heads.output.num_classes = 2;
  return options;
}

FasterRcnnOptions small_mask_options(NormType norm) {
  FasterRcnnOptions options = small_options(norm);
  options.roi_heads.mask_head = MaskHeadOptions{.num_conv = 2, .conv_dim = 32};
  return options;
}

/// 0 to 3 rectangles with masks of their own.
Targets targets_of_image(std::int64_t image) {
  const std::int64_t count = image == kEmptyImage ? 0 : 1 + image % 3;
  Targets targets{.boxes = torch::zeros({count, 4}), .labels = torch::zeros({count}, torch::kLong)};
  for (std::int64_t i = 0; i < count; ++i) {
    const double x = 4.0 + 28.0 * static_cast<double>(i),
                 y = 3.0 + 4.0 * static_cast<double>(image);
    const double right = x + 18 + 4.0 * static_cast<double>(i), bottom = y + 24;
    targets.boxes[i] = torch::tensor({x, y, right, bottom});
    targets.labels[i] = (image + i) % 2;
    targets.masks.push_back({.polygons = {{x, y, right, y, right, bottom}}, .rle = {}});
  }
  return targets;
}

/// `keys`: first of the images' random numbers.
Batch make_batch(std::uint64_t keys) {
  Batch batch;
  batch.images.images = test::random_tensor({kImages, 3, 64, 96}, 17);
  for (std::int64_t i = 0; i < kImages; ++i) {
    batch.images.sizes.push_back({64, 96 - i});
    batch.images.original_sizes.push_back({64, 96 - i});
    batch.images.image_ids.push_back(i);
    batch.images.paths.push_back("image" + std::to_string(i));
    batch.images.rng_keys.push_back(keys + static_cast<std::uint64_t>(i));
    batch.targets.push_back(targets_of_image(i));
  }
  return batch;
}

struct Trained {
  std::vector<StepResult> steps;
  NamedTensors state;
};

Trained train_ten_steps(Detector& detector, double lr, std::int64_t accumulation_steps) {
  Sgd sgd(detector, {.clip = {.type = GradientClipOptions::Type::kFullModel, .value = 35}});
  SingleProcess alone;
  detector.train();
  Trained trained;
  for (std::uint64_t step = 0; step < 10; ++step) {
    trained.steps.push_back(train_step(detector, sgd, alone, make_batch(step * kImages),
                                       {.lr = lr, .accumulation_steps = accumulation_steps}));
  }
  trained.state = model_state(detector);
  return trained;
}

double largest_difference(const NamedTensors& a, const NamedTensors& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].second.numel() > 0) {
      const Tensor difference = (a[i].second - b[i].second).abs().max();
      largest = std::max(largest, difference.item<double>());
    }
  }
  return largest;
}

void expect_parts_train_as_the_whole(const std::function<std::shared_ptr<Detector>()>& make,
                                     double lr,
                                     const std::vector<std::int64_t>& numbers_of_parts) {
  const auto start = make();
  const auto whole = make();
  const Trained expected = train_ten_steps(*whole, lr, 1);
  EXPECT_GT(largest_difference(expected.state, model_state(*start)), 1e-3) << "nothing was learnt";
  for (const std::int64_t accumulation_steps : numbers_of_parts) {
    SCOPED_TRACE(accumulation_steps);
    const auto parts = make();
    const Trained trained = train_ten_steps(*parts, lr, accumulation_steps);
    const double difference = largest_difference(trained.state, expected.state);
    EXPECT_LE(difference, 1e-6);
    testing::Test::RecordProperty("difference" + std::to_string(accumulation_steps),
                                  fmt::format("{:.2g}", difference));
    for (std::size_t step = 0; step < trained.steps.size(); ++step) {
      const auto& losses = expected.steps[step].losses;
      for (std::size_t i = 0; i < losses.size(); ++i) {
        EXPECT_EQ(trained.steps[step].losses[i].first, losses[i].first);
        EXPECT_NEAR(trained.steps[step].losses[i].second, losses[i].second,
                    1e-5 * losses[i].second + 1e-7)
            << "step " << step << " " << losses[i].first;
      }
      EXPECT_NEAR(trained.steps[step].grad_norm, expected.steps[step].grad_norm,
                  1e-4 * expected.steps[step].grad_norm)  // single f32 sums, by threads
          << "step " << step;
    }
  }
}

// The rates are as high as the models can take without chaos: where rounding moves a proposal over
// a threshold, weights differ by more than rounding.
TEST(AccumulationProperty, PartsTrainFasterRcnnAsTheWholeBatch) {
  expect_parts_train_as_the_whole(
      [] { return std::make_shared<FasterRcnn>(small_options(NormType::kFrozenBn), 1); }, 3e-4,
      {2});
}

TEST(AccumulationProperty, PartsTrainMaskRcnnAsTheWholeBatch) {
  expect_parts_train_as_the_whole(
      [] { return std::make_shared<FasterRcnn>(small_mask_options(NormType::kFrozenBn), 1); }, 3e-4,
      {2});
}

TEST(AccumulationProperty, PartsTrainYoloV3AsTheWholeBatch) {
  YoloV3Options options;
  options.darknet = {.stem_channels = 8, .blocks = {1, 1, 1, 1, 1}, .norm = NormType::kEvalBn};
  options.neck = {.widths = {64, 32, 16}, .norm = NormType::kEvalBn};
  options.head = {.widths = {64, 32, 16}, .norm = NormType::kEvalBn};
  options.layout.num_classes = 2;
  expect_parts_train_as_the_whole([&] { return std::make_shared<YoloV3>(options, 1); }, 1e-4,
                                  {2, 3});  // 4 + 4, and 3 + 3 + 2
}

TEST(AccumulationProperty, CountsOfABatchAreWhatItsOwnLossesAreDividedBy) {
  FasterRcnn model(small_mask_options(NormType::kFrozenBn), 1);
  for (const Batch& part : split_batch(make_batch(3), 3)) {
    const LossCounts counts = model.loss_counts(part.images, part.targets);
    EXPECT_EQ(counts.images, part.images.count());
    EXPECT_GT(counts.rois, counts.masks);
    const LossMap alone = model.losses(part.images, part.targets);
    const LossMap counted = model.losses(part.images, part.targets, &counts);
    for (std::size_t i = 0; i < alone.size(); ++i) {
      EXPECT_EQ(alone[i].value.item<float>(), counted[i].value.item<float>()) << alone[i].name;
    }
  }
}

TEST(Accumulation, NumbersOfRoisAndMasksDifferBetweenParts) {
  // else the tests above would not see a mean that is taken over a part
  FasterRcnn model(small_mask_options(NormType::kFrozenBn), 1);
  const std::vector<Batch> parts = split_batch(make_batch(0), 2);
  const LossCounts first = model.loss_counts(parts[0].images, parts[0].targets);
  const LossCounts second = model.loss_counts(parts[1].images, parts[1].targets);
  EXPECT_NE(first.rois, second.rois);
  EXPECT_NE(first.masks, second.masks);
}

TEST(Accumulation, CountingLeavesRunningStatisticsAndGradientsAlone) {
  FasterRcnn model(small_options(NormType::kBn), 1);
  model.train();
  NamedTensors before;
  for (const auto& [name, tensor] : model_state(model)) {
    before.emplace_back(name, tensor.clone());
  }
  const Batch batch = make_batch(0);
  model.loss_counts(batch.images, batch.targets);
  EXPECT_EQ(largest_difference(model_state(model), before), 0.0);
  EXPECT_TRUE(model.is_training());
  for (const Tensor& parameter : model.parameters()) {
    EXPECT_FALSE(parameter.grad().defined());
  }
}

}  // namespace
}  // namespace detforge
