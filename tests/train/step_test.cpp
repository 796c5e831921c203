#include "detforge/train/step.h"

#include <cmath>
#include <limits>

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "detforge/core/error.h"
#include "detforge/distributed/single/single_process.h"
#include "train/toy.h"

namespace detforge {
namespace {

/// Two ranks that see the same data: sums are twice the own value.
class TwinProcess final : public Communicator {
 public:
  std::int64_t rank() const override { return 0; }
  std::int64_t world_size() const override { return 2; }
  void all_reduce_sum_(Tensor& tensor) override { tensor.mul_(2); }
  void broadcast_(Tensor&, std::int64_t) override {}
  std::vector<std::string> all_gather(const std::string& bytes) override { return {bytes, bytes}; }
  void barrier() override {}
};

TEST(TrainStep, ReportsEveryTermTheirSumAndTheGradientNorm) {
  test::ToyDetector detector;
  Sgd sgd(detector, {});
  SingleProcess alone;
  test::ToySource source;
  const StepResult result = train_step(detector, sgd, alone, source.next(), {.lr = 0.01});
  ASSERT_EQ(result.losses.size(), 2u);
  EXPECT_EQ(result.losses[0].first, "loss_cls");
  EXPECT_DOUBLE_EQ(result.total, result.losses[0].second + result.losses[1].second);
  EXPECT_DOUBLE_EQ(result.grad_norm, sgd.gradient_norm());
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

TEST(TrainStepProperty, TwoRanksWithTheSameBatchEqualOneRank) {
  at::get_num_threads();  // fixes OpenMP's threads before the first sum, which depends on them (see
                          // train())
  test::ToyDetector one, two;
  Sgd sgd_one(one, {}), sgd_two(two, {});
  SingleProcess alone;
  TwinProcess twin;
  test::ToySource source_one, source_two;
  for (int i = 0; i < 3; ++i) {
    const StepResult a = train_step(one, sgd_one, alone, source_one.next(), {.lr = 0.1});
    const StepResult b = train_step(two, sgd_two, twin, source_two.next(), {.lr = 0.1});
    EXPECT_DOUBLE_EQ(a.total, b.total);
  }
  EXPECT_TRUE(torch::equal(one.weight, two.weight));  // times 2, divided by 2: exact
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
