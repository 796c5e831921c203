#include "detforge/eval/inference.h"

#include <utility>

#include <gtest/gtest.h>
#include <torch/types.h>

#include "detforge/core/error.h"
#include "detforge/structures/rle.h"

namespace detforge {
namespace {

using Ids = std::vector<std::optional<std::int64_t>>;

/// Finds in every image one object of each class: class k at x = 10 (k + 1), 10 wide, y = 0..20,
/// score 0.5.
class FakeDetector : public Detector {
 public:
  LossMap losses(const ImageBatch&, const std::vector<Targets>&, const LossCounts*) override {
    return {};
  }

  std::vector<Detections> predict(const ImageBatch& images) override {
    saw_training_ = saw_training_ || is_training();
    saw_gradients_ = saw_gradients_ || torch::GradMode::is_enabled();
    if (fail_) {
      throw Error("broken", "mend it");
    }
    Detections found = {.boxes = torch::tensor({{10.F, 0.F, 20.F, 20.F}, {20.F, 0.F, 30.F, 20.F}}),
                        .scores = torch::tensor({0.5F, 0.25F}),
                        .labels = torch::tensor({0, 1}, torch::kLong)};
    if (masks_) {  // the first object fills its box, the second the upper half of it
      found.masks = torch::ones({2, 4, 4});
      found.masks[1].slice(0, 2).zero_();
    }
    std::vector<Detections> all(static_cast<std::size_t>(images.count()), found);
    if (first_without_masks_) {
      all.front().masks = Tensor();
    }
    return all;
  }

  bool masks_ = false, first_without_masks_ = false;
  bool saw_training_ = false, saw_gradients_ = false, fail_ = false;
};

/// `batches` batches of two 100x100 images, 200x300 in the file, with ids 1000, 1001, ...
BatchProducer two_at_a_time(int batches) {
  return [batches, next = std::int64_t{1000}]() mutable -> std::optional<Batch> {
    if (next >= 1000 + 2 * batches) {
      return std::nullopt;
    }
    Batch batch;
    batch.images.sizes = {{100, 100}, {100, 100}};
    batch.images.original_sizes = {{200, 300}, {200, 300}};
    batch.images.image_ids = {next, next + 1};
    next += 2;
    return batch;
  };
}

TEST(Inference, GivesOriginalPixelsAndIds) {
  FakeDetector detector;
  const auto result = run_inference(detector, two_at_a_time(2), Ids{9, 3});
  ASSERT_EQ(result.detections.size(), 8U);
  EXPECT_EQ(result.image_ids, (std::vector<std::int64_t>{1000, 1001, 1002, 1003}));
  const EvalDetection& second = result.detections[1];  // x scaled by 3, y by 2
  EXPECT_EQ(second.image_id, 1000);
  EXPECT_EQ(second.category_id, 3);
  EXPECT_EQ(second.x, 60);
  EXPECT_EQ(second.y, 0);
  EXPECT_EQ(second.width, 30);
  EXPECT_EQ(second.height, 40);
  EXPECT_EQ(second.score, 0.25);
}

TEST(Inference, RunsInEvalModeWithoutGradientsAndRestoresTheMode) {
  FakeDetector detector;
  detector.train();
  run_inference(detector, two_at_a_time(1), Ids{9, 3});
  EXPECT_FALSE(detector.saw_training_);
  EXPECT_FALSE(detector.saw_gradients_);
  EXPECT_TRUE(detector.is_training());
  EXPECT_TRUE(torch::GradMode::is_enabled());
  detector.fail_ = true;
  EXPECT_THROW(run_inference(detector, two_at_a_time(1), Ids{9, 3}), Error);
  EXPECT_TRUE(detector.is_training());
  detector.fail_ = false;
  detector.eval();
  run_inference(detector, two_at_a_time(1), Ids{9, 3});
  EXPECT_FALSE(detector.is_training());
}

TEST(Inference, StopsAtTheLimitInsideABatch) {
  FakeDetector detector;
  std::vector<std::int64_t> done;
  const auto result = run_inference(
      detector, two_at_a_time(5), Ids{9, 3},
      {.max_images = 3, .progress = [&](std::int64_t count) { done.push_back(count); }});
  EXPECT_EQ(result.image_ids.size(), 3U);
  EXPECT_EQ(result.detections.size(), 6U);
  EXPECT_EQ(done, (std::vector<std::int64_t>{2, 3}));
}

TEST(Inference, LeavesOutClassesThatTheDataDoesNotHave) {
  FakeDetector detector;
  const auto result = run_inference(detector, two_at_a_time(1), Ids{std::nullopt, 3});
  EXPECT_EQ(result.detections.size(), 2U);
  EXPECT_EQ(result.dropped, 2);
}

TEST(Inference, RefusesALabelWithoutName) {
  FakeDetector detector;
  EXPECT_THROW(run_inference(detector, two_at_a_time(1), Ids{9}), Error);
}

// Boxes (30, 0, 60, 40) and (60, 0, 90, 40) in an image of 200 x 300 (height x width).
TEST(Inference, PastesMasksIntoTheOriginalImage) {
  FakeDetector detector;
  detector.masks_ = true;
  const auto result = run_inference(detector, two_at_a_time(1), Ids{9, 3});
  ASSERT_EQ(result.masks.size(), result.detections.size());
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(result.masks[i].size, (ImageSize{200, 300}));
    const Box box = rle_box(result.masks[i].counts, 200);
    EXPECT_EQ(box, i % 2 == 0 ? (Box{30, 0, 60, 40}) : (Box{60, 0, 90, 20})) << i;
    // All but the corners, where the interpolation with the outside falls below one half.
    EXPECT_GE(rle_area(result.masks[i].counts), i % 2 == 0 ? 1200 - 60 : 600 - 60);
  }
}

TEST(Inference, MasksOfClassesThatTheDataDoesNotHaveAreLeftOutToo) {
  FakeDetector detector;
  detector.masks_ = true;
  const auto result = run_inference(detector, two_at_a_time(1), Ids{std::nullopt, 3});
  ASSERT_EQ(result.detections.size(), 2U);
  ASSERT_EQ(result.masks.size(), 2U);
  EXPECT_EQ(rle_box(result.masks[0].counts, 200), (Box{60, 0, 90, 20}));
}

TEST(Inference, RefusesAModelThatGivesMasksForSomeImagesOnly) {
  FakeDetector detector;
  detector.masks_ = detector.first_without_masks_ = true;
  EXPECT_THROW(run_inference(detector, two_at_a_time(1), Ids{9, 3}), Error);
}

}  // namespace
}  // namespace detforge
