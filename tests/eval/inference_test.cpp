#include "detforge/eval/inference.h"

#include <utility>

#include <gtest/gtest.h>
#include <torch/types.h>

#include "detforge/core/error.h"

namespace detforge {
namespace {

using Ids = std::vector<std::optional<std::int64_t>>;

/// Finds in every image one object of each class: class k at x = 10 (k + 1), 10 wide, y = 0..20,
/// score 0.5.
class FakeDetector : public Detector {
 public:
  LossMap losses(const ImageBatch&, const std::vector<Targets>&) override { return {}; }

  std::vector<Detections> predict(const ImageBatch& images) override {
    saw_training_ = saw_training_ || is_training();
    saw_gradients_ = saw_gradients_ || torch::GradMode::is_enabled();
    if (fail_) {
      throw Error("broken", "mend it");
    }
    const Detections found = {
        .boxes = torch::tensor({{10.F, 0.F, 20.F, 20.F}, {20.F, 0.F, 30.F, 20.F}}),
        .scores = torch::tensor({0.5F, 0.25F}),
        .labels = torch::tensor({0, 1}, torch::kLong)};
    return std::vector<Detections>(static_cast<std::size_t>(images.count()), found);
  }

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

}  // namespace
}  // namespace detforge
