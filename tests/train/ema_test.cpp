#include "detforge/train/ema.h"

#include <cmath>

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "detforge/core/error.h"
#include "support/torch/tensors.h"

namespace detforge {
namespace {

/// A weight, a running statistic and a counter.
class Model : public torch::nn::Module {
 public:
  explicit Model(const Tensor& value) {
    weight = register_parameter("weight", value.clone());
    mean = register_buffer("mean", torch::ones({1}));
    count = register_buffer("count", torch::zeros({}, torch::kLong));
  }
  void set(double value) {
    const torch::NoGradGuard no_grad;
    weight.fill_(value);
    mean.fill_(value);
    count += 1;
  }
  Tensor weight, mean, count;
};

double first(const Tensor& tensor) {
  return tensor.flatten()[0].item<double>();
}

TEST(Ema, TwoUpdatesByHand) {
  // decay 0.5: 0.5 * 1 + 0.5 * 3 = 2, then 0.5 * 2 + 0.5 * 5 = 3.5; the counter is copied
  Model model(torch::ones({1}));
  Ema ema(model, {.decay = 0.5, .tau = 0});
  model.set(3);
  ema.update();
  EXPECT_FLOAT_EQ(static_cast<float>(first(ema.state()[0].second)), 2.0F);
  model.set(5);
  ema.update();
  ASSERT_EQ(ema.state().size(), 3u);
  EXPECT_EQ(ema.state()[1].first, "mean");
  EXPECT_FLOAT_EQ(static_cast<float>(first(ema.state()[0].second)), 3.5F);
  EXPECT_FLOAT_EQ(static_cast<float>(first(ema.state()[1].second)), 3.5F);
  EXPECT_EQ(ema.state()[2].second.item<std::int64_t>(), 2);
  EXPECT_EQ(ema.updates(), 2);
  EXPECT_EQ(first(model.weight), 5.0);
}

TEST(Ema, DecayGrowsWithTheUpdates) {
  // decay 0.9, tau 2: d1 = 0.9 (1 - exp(-0.5)) = 0.354122, d2 = 0.9 (1 - exp(-1)) = 0.568908
  //   1 -> d1 + (1 - d1) 3 = 2.291755 -> 2.291755 d2 + (1 - d2) 5 = 3.459256
  Model model(torch::ones({1}));
  Ema ema(model, {.decay = 0.9, .tau = 2});
  model.set(3);
  ema.update();
  EXPECT_NEAR(first(ema.state()[0].second), 2.291755, 1e-6);
  model.set(5);
  ema.update();
  EXPECT_NEAR(first(ema.state()[0].second), 3.459256, 2e-6);
}

TEST(Ema, LargeTensorsOfAnyLayoutFollowTheFormulaForAnyNumberOfThreads) {
  const int threads = at::get_num_threads();
  torch::manual_seed(3);
  const Tensor start = torch::randn({40, 30, 10, 7});
  const Tensor step = torch::randn({40, 30, 10, 7});
  const Tensor expected =
      (start.to(torch::kDouble) * 0.75 + step.to(torch::kDouble) * 0.25).to(torch::kFloat);
  std::vector<Tensor> results;
  for (const int count : {1, 3}) {
    at::set_num_threads(count);
    for (const auto format : {torch::MemoryFormat::Contiguous, torch::MemoryFormat::ChannelsLast}) {
      Model model(start.contiguous(format));
      Ema ema(model, {.decay = 0.75, .tau = 0});
      {
        const torch::NoGradGuard no_grad;
        model.weight.copy_(step);
      }
      ema.update();
      results.push_back(ema.state()[0].second);
      EXPECT_TRUE(test::expect_close(results.back(), expected, {.rtol = 1e-6, .atol = 1e-6}));
    }
  }
  at::set_num_threads(threads);
  EXPECT_TRUE(torch::equal(results[0], results[2]));
  EXPECT_TRUE(torch::equal(results[0], results[1]));
}

TEST(Ema, OtherFloatingTypesFollowTheSameFormula) {
  Model model(torch::ones({2}, torch::kDouble));
  Ema ema(model, {.decay = 0.5, .tau = 0});
  model.set(3);
  ema.update();
  EXPECT_DOUBLE_EQ(first(ema.state()[0].second), 2.0);
}

TEST(EmaProperty, AverageOfUnchangedWeightsIsTheWeightsToTheBit) {
  torch::manual_seed(4);
  Model model(torch::randn({1000}));
  Ema ema(model, {.decay = 0.7, .tau = 3});
  for (int i = 0; i < 50; ++i) {
    ema.update();
  }
  EXPECT_TRUE(torch::equal(ema.state()[0].second, model.weight));
}

TEST(Ema, AppliedHoldsTheAverageAndGivesTheWeightsBackAlsoAfterAnException) {
  Model model(torch::ones({1}));
  Ema ema(model, {.decay = 0.5, .tau = 0});
  model.set(3);
  ema.update();
  EXPECT_THROW(
      {
        const Ema::Applied averaged(ema);
        EXPECT_EQ(first(model.weight), 2.0);
        EXPECT_EQ(first(model.mean), 2.0);
        throw Error("no", "none");
      },
      Error);
  EXPECT_EQ(first(model.weight), 3.0);
  EXPECT_EQ(first(ema.state()[0].second), 2.0);
  EXPECT_TRUE(model.weight.requires_grad());
}

TEST(Ema, RestartForgets) {
  Model model(torch::ones({1}));
  Ema ema(model, {});
  model.set(3);
  ema.update();
  model.set(7);
  ema.restart();
  EXPECT_EQ(ema.updates(), 0);
  EXPECT_EQ(first(ema.state()[0].second), 7.0);
}

TEST(Ema, StateGoesIntoAnotherAndMustFit) {
  Model model(torch::ones({1})), other(torch::ones({1}));
  Ema ema(model, {}), copy(other, {});
  model.set(3);
  ema.update();
  copy.load_state(ema.state(), ema.updates());
  EXPECT_EQ(copy.updates(), 1);
  EXPECT_TRUE(torch::equal(copy.state()[0].second, ema.state()[0].second));
  EXPECT_EQ(first(other.weight), 1.0);
  EXPECT_THROW(copy.load_state({}, 0), Error);
  NamedTensors wrong = ema.state();
  wrong[0].second = torch::zeros({2});
  EXPECT_THROW(copy.load_state(wrong, 0), Error);
}

TEST(Ema, RefusesOptionsWithoutMeaning) {
  const Model model(torch::ones({1}));
  EXPECT_THROW(Ema(model, {.decay = 1.0}), Error);
  EXPECT_THROW(Ema(model, {.decay = -0.1}), Error);
  EXPECT_THROW(Ema(model, {.tau = -1}), Error);
}

}  // namespace
}  // namespace detforge
