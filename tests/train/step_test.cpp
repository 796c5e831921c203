#include "detforge/train/step.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "detforge/core/error.h"
#include "detforge/distributed/single_process.h"
#include "detforge/train/split_batch.h"
#include "train/toy.h"

namespace detforge {
namespace {

TEST(TrainStep, ReportsEveryTermTheirSumAndTheGradientNorm) {
  test::ToyDetector detector;
  Sgd sgd(detector, {});
  SingleProcess alone;
  test::ToySource source;
  const StepResult result = train_step(detector, sgd, alone, source.next(), {.lr = 0.01});
  ASSERT_EQ(result.losses.size(), 2u);
  EXPECT_EQ(result.losses[0].first, "loss_cls");
  EXPECT_DOUBLE_EQ(result.total, result.losses[0].second + result.losses[1].second);
  EXPECT_DOUBLE_EQ(result.grad_norm, sgd.gradient_norm().total);
  EXPECT_TRUE(result.updated());
}

TEST(TrainStep, ManyStepsLowerTheLoss) {
  test::ToyDetector detector;
  Sgd sgd(detector, {});
  SingleProcess alone;
  test::ToySource source;
  const double first = train_step(detector, sgd, alone, source.next(), {.lr = 0.05}).total;
  double last = first;
  for (int i = 0; i < 60; ++i) {
    last = train_step(detector, sgd, alone, source.next(), {.lr = 0.05}).total;
  }
  EXPECT_LT(last, 0.2 * first);
}

/// Four images, two of ToySource's batches side by side.
Batch four_images() {
  test::ToySource source;
  Batch batch = source.next();
  const Batch more = source.next();
  batch.images.images = torch::cat({batch.images.images, more.images.images});
  const auto append = [](auto& to, const auto& from) {
    to.insert(to.end(), from.begin(), from.end());
  };
  append(batch.images.sizes, more.images.sizes);
  append(batch.images.original_sizes, more.images.original_sizes);
  append(batch.images.image_ids, more.images.image_ids);
  append(batch.images.paths, more.images.paths);
  append(batch.images.rng_keys, more.images.rng_keys);
  append(batch.targets, more.targets);
  return batch;
}

TEST(TrainStepProperty, AccumulatedPartsEqualTheWholeBatchAlsoWhereClipped) {
  const SgdOptions options{.clip = {.type = GradientClipOptions::Type::kFullModel, .value = 0.01}};
  const Batch batch = four_images();
  test::ToyDetector whole;
  Sgd sgd_whole(whole, options);
  SingleProcess alone;
  const StepResult expected = train_step(whole, sgd_whole, alone, batch, {.lr = 0.1});
  EXPECT_GT(expected.grad_norm, 0.1);  // clipping matters
  for (const std::int64_t steps : {2, 3, 9}) {
    test::ToyDetector parts;
    Sgd sgd_parts(parts, options);
    const StepResult result =
        train_step(parts, sgd_parts, alone, batch, {.lr = 0.1, .accumulation_steps = steps});
    EXPECT_EQ(parts.passes.item<std::int64_t>(), std::min<std::int64_t>(steps, 4));
    ASSERT_EQ(result.losses.size(), 2u);
    EXPECT_NEAR(result.losses[0].second, expected.losses[0].second, 1e-6);
    EXPECT_NEAR(result.losses[1].second, expected.losses[1].second, 1e-6);
    EXPECT_NEAR(result.total, expected.total, 1e-6);
    EXPECT_NEAR(result.grad_norm, expected.grad_norm, 1e-5);
    EXPECT_LT((parts.weight - whole.weight).abs().max().item<float>(), 1e-7f) << steps;
  }
}

TEST(TrainStep, NonFiniteLossOfOnePartLeavesTheWeights) {
  test::ToyDetector detector;
  Sgd sgd(detector, {});
  SingleProcess alone;
  Batch batch = four_images();
  batch.images.images[3][0][0][0] = std::numeric_limits<float>::quiet_NaN();
  const Tensor before = detector.weight.detach().clone();
  const StepResult result =
      train_step(detector, sgd, alone, batch, {.lr = 0.1, .accumulation_steps = 2});
  EXPECT_EQ(detector.passes.item<std::int64_t>(), 0);  // buffers are put back with the weights
  EXPECT_EQ(result.nonfinite, "loss_cls = nan, loss_box_reg = nan");
  EXPECT_TRUE(std::isnan(result.total));
  EXPECT_TRUE(torch::equal(detector.weight, before));
}

TEST(SplitBatch, LargerPartsComeFirstAndShareThePixels) {
  Batch batch = four_images();
  const std::vector<Batch> parts = split_batch(batch, 3);
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[0].images.image_ids, (std::vector<std::int64_t>{0, 1}));
  EXPECT_EQ(parts[1].images.image_ids, (std::vector<std::int64_t>{2}));
  EXPECT_EQ(parts[2].images.rng_keys, std::vector<std::uint64_t>{batch.images.rng_keys[3]});
  EXPECT_EQ(parts[2].targets.size(), 1u);
  EXPECT_EQ(parts[2].images.images.sizes(), (std::vector<std::int64_t>{1, 3, 8, 8}));
  EXPECT_EQ(parts[2].images.images.data_ptr<float>(), batch.images.images[3].data_ptr<float>());
  batch.images.original_sizes = {};  // a list that nobody filled stays so
  EXPECT_TRUE(split_batch(batch, 2)[1].images.original_sizes.empty());
  EXPECT_THROW(split_batch(batch, 0), Error);
}

TEST(TrainStep, NonFiniteLossLeavesTheWeightsAndNamesTheTerms) {
  test::ToyDetector detector;
  Sgd sgd(detector, {});
  SingleProcess alone;
  test::ToySource source;
  Batch batch = source.next();
  batch.images.images[0][0][0][0] = std::numeric_limits<float>::quiet_NaN();
  const Tensor before = detector.weight.detach().clone();
  const StepResult result = train_step(detector, sgd, alone, batch, {.lr = 0.1});
  EXPECT_FALSE(result.updated());
  EXPECT_EQ(result.nonfinite, "loss_cls = nan, loss_box_reg = nan");
  EXPECT_TRUE(torch::equal(detector.weight, before));
}

/// sqrt(0) has a finite value and an infinite gradient.
class RootDetector : public test::ToyDetector {
 public:
  LossMap losses(const ImageBatch&, const std::vector<Targets>&, const LossCounts*) override {
    return {{"loss_root", (weight * 0).sqrt().sum() + bias.sum()}};
  }
};

TEST(TrainStep, NonFiniteGradientLeavesTheWeightsAndNamesTheParameter) {
  RootDetector detector;
  Sgd sgd(detector, {});
  SingleProcess alone;
  test::ToySource source;
  const Tensor before = detector.bias.detach().clone();
  const StepResult result = train_step(detector, sgd, alone, source.next(), {.lr = 0.1});
  EXPECT_EQ(result.nonfinite, "the gradient of weight");
  EXPECT_TRUE(torch::equal(detector.bias, before));
}

}  // namespace
}  // namespace detforge
