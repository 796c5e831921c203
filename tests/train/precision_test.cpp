#include "detforge/train/precision.h"

#include <cmath>
#include <gmock/gmock.h>
#include <limits>

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "detforge/core/error.h"
#include "detforge/distributed/single_process.h"
#include "detforge/models/yolo/yolo_loss.h"
#include "detforge/ops/roi_align.h"
#include "detforge/serialize/torch_file.h"
#include "detforge/train/checkpoint.h"
#include "detforge/train/model_state.h"
#include "detforge/train/step.h"
#include "support/test_data.h"
#include "support/torch/tensors.h"
#include "train/precision_levels.h"
#include "train/toy.h"

namespace detforge {
namespace {

using test::level;
using test::with_scale;
using ::testing::HasSubstr;

TEST(LossScaler, GrowsAfterTwoThousandGoodStepsAndHalvesAtEachOverflow) {
  LossScaler scaler(dynamic_loss_scale());
  EXPECT_EQ(scaler.scale(), 65536);
  for (int i = 0; i < 1999; ++i) {
    scaler.update(true);
  }
  EXPECT_EQ(scaler.scale(), 65536);
  scaler.update(true);
  EXPECT_EQ(scaler.scale(), 131072);
  scaler.update(false);
  EXPECT_EQ(scaler.scale(), 65536);
  EXPECT_EQ(scaler.good_steps(), 0);
  for (int i = 0; i < 100; ++i) {
    scaler.update(false);
  }
  EXPECT_EQ(scaler.scale(), 1);  // never 0
  EXPECT_TRUE(scaler.is_at_floor());
}

TEST(LossScaler, StopsAtItsCeilingAndRefusesScalesOutOfRange) {
  LossScaler scaler({.dynamic = true, .value = 16777216, .growth_interval = 1});
  scaler.update(true);
  EXPECT_EQ(scaler.scale(), 16777216);
  scaler.restore(0.5, 0);  // of a static scale, in a run that is dynamic now
  EXPECT_EQ(scaler.scale(), 1);
  EXPECT_THROW(scaler.restore(-2, 0), Error);
  EXPECT_THROW(scaler.restore(NAN, 0), Error);
  EXPECT_THROW(LossScaler({.value = 0}), Error);
  LossScaler fixed({.value = 64});
  fixed.update(false);
  fixed.restore(128, 3);
  EXPECT_EQ(fixed.scale(), 64);
}

TEST(Precision, LevelsAreApexTable) {
  EXPECT_EQ(Precision(level(OptLevel::kO0)).scaler().scale(), 1);
  EXPECT_TRUE(Precision(level(OptLevel::kO1)).scaler().is_dynamic());
  EXPECT_TRUE(Precision(level(OptLevel::kO2)).scaler().is_dynamic());
  EXPECT_EQ(Precision(level(OptLevel::kO3)).scaler().scale(), 1);
  EXPECT_THAT(Precision(level(OptLevel::kO2)).description(),
              HasSubstr("maps and weights f16, f32 masters, norms f32, dynamic loss scale 65536"));
  EXPECT_THROW(opt_level_of("O4"), Error);
  EXPECT_THROW(Precision(level(OptLevel::kO2, at::kDouble)), Error);
}

/// A run of the toy in some precision. Gradients of its weight are infinite while `overflows`.
struct ToyRun {
  explicit ToyRun(PrecisionOptions options, SgdOptions sgd_options = {})
      : sgd(detector, sgd_options), precision(options) {
    detector.train();
    detector.weight.register_hook([this](const Tensor& gradient) {
      return overflows ? torch::full_like(gradient, std::numeric_limits<float>::infinity())
                       : gradient;
    });
  }
  void start() { precision.apply(detector, sgd); }
  StepResult step(double lr = 0.05) {
    return train_step(detector, sgd, alone, source.next(), {.lr = lr, .precision = &precision});
  }
  Checkpointer checkpointer(const std::filesystem::path& folder) {
    return {{.folder = folder}, {}, detector, sgd, source, nullptr, &precision};
  }

  bool overflows = false;
  test::ToyDetector detector;
  Sgd sgd;
  Precision precision;
  SingleProcess alone;
  test::ToySource source;
};

TEST(MixedPrecision, TypesAreThoseOfTheLevel) {
  ToyRun o1(level(OptLevel::kO1)), o2(level(OptLevel::kO2, at::kBFloat16)),
      o3(level(OptLevel::kO3));
  for (ToyRun* run : {&o1, &o2, &o3}) {
    run->start();
  }
  EXPECT_EQ(o1.detector.map_type(), at::kHalf);
  EXPECT_EQ(o1.detector.weight.scalar_type(), at::kFloat);
  EXPECT_TRUE(o1.sgd.masters().empty());
  EXPECT_EQ(o2.detector.weight.scalar_type(), at::kBFloat16);
  EXPECT_EQ(o2.sgd.masters().size(), 2u);
  EXPECT_EQ(o2.sgd.masters()[0].second.scalar_type(), at::kFloat);
  EXPECT_EQ(o3.detector.weight.scalar_type(), at::kHalf);
  EXPECT_TRUE(o3.sgd.masters().empty());
  EXPECT_TRUE(o2.step().updated());
  EXPECT_EQ(o2.detector.weight.grad().scalar_type(), at::kBFloat16);
}

TEST(MixedPrecision, EveryLevelLearnsWhatF32Learns) {
  ToyRun f32(level(OptLevel::kO0));
  double expected = 0;
  for (int i = 0; i < 60; ++i) {
    expected = f32.step().total;
  }
  for (const OptLevel opt : {OptLevel::kO1, OptLevel::kO2, OptLevel::kO3}) {
    ToyRun run(level(opt));
    run.start();
    double last = 0;
    for (int i = 0; i < 60; ++i) {
      last = run.step().total;
    }
    // Batches differ from step to step, so the loss is that of the same batch. O3 rounds its
    // updates away.
    EXPECT_NEAR(last, expected, (opt == OptLevel::kO3 ? 0.3 : 0.05) * expected)
        << static_cast<int>(opt);
  }
}

TEST(MixedPrecision, MastersCollectUpdatesThatTheirCopiesCannotShow) {
  ToyRun run(with_scale(level(OptLevel::kO2), {.value = 64}), {.momentum = 0, .weight_decay = 0});
  run.start();
  const Tensor before = run.sgd.masters()[0].second.clone();
  const Tensor copy = run.detector.weight.detach().clone();
  run.step(1e-6);
  EXPECT_FALSE(torch::equal(run.sgd.masters()[0].second, before));
  EXPECT_TRUE(torch::equal(run.detector.weight.detach(), copy));  // below half of its last place
  for (int i = 0; i < 20; ++i) {
    run.step(1e-4);
  }
  EXPECT_TRUE(
      torch::equal(run.detector.weight.detach(), run.sgd.masters()[0].second.to(at::kHalf)));
  EXPECT_FALSE(torch::equal(run.detector.weight.detach(), copy));
}

// FIELD_REPORTS F50, F44: an overflow drops the update, always; the rate follows the iteration.
TEST(MixedPrecision, AnOverflowChangesNothingButTheScale) {
  for (const OptLevel opt : {OptLevel::kO1, OptLevel::kO2}) {
    ToyRun run(level(opt));
    run.start();
    for (int i = 0; i < 3; ++i) {
      EXPECT_TRUE(run.step().updated());
    }
    NamedTensors state = model_state(run.detector);
    for (const NamedTensors& more : {run.sgd.state(), run.sgd.masters()}) {
      state.insert(state.end(), more.begin(), more.end());
    }
    std::vector<Tensor> before;
    for (const auto& [name, tensor] : state) {
      before.push_back(tensor.clone());
    }
    run.overflows = true;
    const StepResult result = run.step();
    EXPECT_EQ(result.nonfinite, "the gradient of weight");
    EXPECT_TRUE(std::isfinite(result.total));
    EXPECT_EQ(result.loss_scale, 65536);
    EXPECT_EQ(run.precision.scaler().scale(), 32768);
    for (std::size_t i = 0; i < before.size(); ++i) {
      EXPECT_TRUE(torch::equal(state[i].second, before[i])) << state[i].first;
    }
    run.overflows = false;
    EXPECT_TRUE(run.step().updated());
    EXPECT_EQ(run.precision.scaler().scale(), 32768);
  }
}

TEST(MixedPrecision, AStaticScaleDropsTheUpdateToo) {
  ToyRun run(with_scale(level(OptLevel::kO2), {.value = 64}));
  run.start();
  const Tensor before = run.sgd.masters()[0].second.clone();
  run.overflows = true;
  EXPECT_FALSE(run.step().updated());
  EXPECT_TRUE(torch::equal(run.sgd.masters()[0].second, before));
  EXPECT_EQ(run.precision.scaler().scale(), 64);
}

TEST(MixedPrecision, TheRateFollowsTheIterationNotTheUpdates) {
  ToyRun run(level(OptLevel::kO2));
  run.start();
  const LrSchedule schedule({.base_lr = 0.05, .max_iter = 12, .steps = {8}, .warmup_iters = 6});
  std::vector<double> rates;
  std::int64_t updates = 0;
  test::CallHook record([&](const StepReport& report) {
    rates.push_back(report.lr);
    updates += report.result.updated() ? 1 : 0;
    run.overflows = report.iteration < 3;  // of the next step: 1, 2 and 3 overflow
  });
  train({.detector = run.detector,
         .optimizer = run.sgd,
         .schedule = schedule,
         .source = run.source,
         .communicator = run.alone,
         .precision = &run.precision},
        {.max_iter = 12}, {&record});
  ASSERT_EQ(rates.size(), 12u);
  for (std::size_t i = 0; i < rates.size(); ++i) {
    EXPECT_EQ(rates[i], schedule.lr(static_cast<std::int64_t>(i)));
  }
  EXPECT_EQ(updates, 9);
  EXPECT_EQ(run.precision.scaler().scale(), 8192);
}

// F45: unscale, then clip; what is logged is the true norm.
TEST(MixedPrecision, ClippingAndTheLoggedNormSeeTrueGradients) {
  using Type = GradientClipOptions::Type;
  for (const GradientClipOptions clip :
       {GradientClipOptions{Type::kFullModel, 0.1}, GradientClipOptions{Type::kNorm, 0.05},
        GradientClipOptions{Type::kValue, 0.01}, GradientClipOptions{Type::kFullModel, 0.1, 1.0},
        GradientClipOptions{Type::kFullModel, 0.1, INFINITY}}) {
    ToyRun f32(level(OptLevel::kO0), {.clip = clip});
    const Tensor start = f32.detector.weight.detach().clone();
    const StepResult expected = f32.step();
    const Tensor update = f32.detector.weight.detach() - start;
    for (const double scale : {64.0, 4096.0}) {
      ToyRun run(with_scale(level(OptLevel::kO2), {.value = scale}), {.clip = clip});
      run.start();
      const StepResult result = run.step();
      EXPECT_NEAR(result.grad_norm, expected.grad_norm, 0.01 * expected.grad_norm);
      EXPECT_TRUE(test::expect_close_l2(run.sgd.masters()[0].second - start, update, 0.01));
    }
  }
}

// F43: masters, momentum and scaler are in the checkpoint.
TEST(MixedPrecision, FortyStepsEqualTwentyAndResumedTwenty) {
  for (const OptLevel opt : {OptLevel::kO1, OptLevel::kO2, OptLevel::kO3}) {
    const test::TemporaryFolder folder;
    PrecisionOptions options = level(opt);
    options.loss_scale = {.dynamic = true, .value = 1024, .growth_interval = 15};
    const auto train = [](ToyRun& run, int steps) {
      for (int i = 0; i < steps; ++i) {
        run.step();
      }
    };
    ToyRun straight(options), broken(options), resumed(options);
    straight.start();
    train(straight, 40);
    broken.start();
    train(broken, 20);
    broken.checkpointer(folder.path()).save({.iteration = 20, .images_seen = 40});
    ASSERT_TRUE(resumed.checkpointer(folder.path()).resume().has_value());
    resumed.start();
    train(resumed, 20);
    EXPECT_EQ(resumed.precision.scaler().scale(), straight.precision.scaler().scale());
    EXPECT_EQ(resumed.precision.scaler().good_steps(), straight.precision.scaler().good_steps());
    const auto expect_same = [](const NamedTensors& a, const NamedTensors& b) {
      ASSERT_EQ(a.size(), b.size());
      for (std::size_t i = 0; i < a.size(); ++i) {
        EXPECT_TRUE(torch::equal(a[i].second, b[i].second)) << a[i].first;
      }
    };
    expect_same(model_state(resumed.detector), model_state(straight.detector));
    expect_same(resumed.sgd.state(), straight.sgd.state());
    expect_same(resumed.sgd.masters(), straight.sgd.masters());
  }
}

TEST(MixedPrecision, CheckpointsOfO2AndF32LoadInEachOther) {
  const test::TemporaryFolder folder;
  ToyRun o2(level(OptLevel::kO2)), f32(level(OptLevel::kO0)), again(level(OptLevel::kO2));
  o2.start();
  o2.step();
  o2.checkpointer(folder / "o2").save({.iteration = 1, .images_seen = 2});
  ASSERT_TRUE(f32.checkpointer(folder / "o2").resume().has_value());
  EXPECT_TRUE(torch::equal(f32.detector.weight, o2.sgd.masters()[0].second));
  f32.step();
  f32.checkpointer(folder / "f32").save({.iteration = 2, .images_seen = 4});
  again.start();  // also when the masters are there already
  ASSERT_TRUE(again.checkpointer(folder / "f32").resume().has_value());
  EXPECT_TRUE(torch::equal(again.sgd.masters()[0].second, f32.detector.weight));
  EXPECT_TRUE(torch::equal(again.detector.weight, f32.detector.weight.to(at::kHalf)));
  EXPECT_EQ(again.precision.scaler().scale(), 65536);  // nothing saved: it starts
}

TEST(MixedPrecision, AnAverageOfMastersIsWhatTheCopiesShowWhileItIsApplied) {
  ToyRun run(with_scale(level(OptLevel::kO2), {.value = 64}));
  Ema ema(run.detector, {.decay = 0.5, .tau = 0}, [&] { run.sgd.publish_masters(); });
  run.start();
  for (int i = 0; i < 5; ++i) {
    run.step();
    ema.update();
  }
  const Tensor trained = run.detector.weight.detach().clone();
  const Tensor average = ema.state()[0].second.clone();
  EXPECT_EQ(average.scalar_type(), at::kFloat);
  {
    const Ema::Applied averaged(ema);
    EXPECT_TRUE(torch::equal(run.detector.weight.detach(), average.to(at::kHalf)));
  }
  EXPECT_TRUE(torch::equal(run.detector.weight.detach(), trained));
}

// F52: cross entropy of logits that only just fit into f16.
TEST(MixedPrecision, LossesOfExtremeHalfLogitsAreFinite) {
  const YoloLayout layout{.scales = {yolov3_scales()[0]}, .num_classes = 2};
  for (const double size : {50000.0, -50000.0}) {
    const Tensor map = torch::full({1, 3 * 7, 4, 4}, size).to(at::kHalf).requires_grad_();
    const std::vector<Targets> targets{
        {torch::tensor({{10.0F, 10.0F, 100.0F, 90.0F}}), torch::tensor({1}, torch::kLong)}};
    YoloLossOptions options;
    options.wh_weight = 0;  // a square of 50000^2 is no matter of precision
    Tensor sum = torch::zeros({});
    for (const auto& [name, loss, count] : yolo_losses({widen(map)}, layout, targets, options)) {
      EXPECT_TRUE(std::isfinite(loss.item<float>())) << name;
      sum = sum + loss;
    }
    sum.backward();
    EXPECT_TRUE(map.grad().to(at::kFloat).isfinite().all().item<bool>());
  }
}

// F47: ROIs are f32 always; a mixture is refused by name, not read as something else.
TEST(MixedPrecision, RoiAlignTakesHalfMapsAndRefusesHalfRois) {
  const Tensor map = torch::randn({1, 4, 8, 8}).to(at::kBFloat16);
  const Tensor rois = torch::tensor({{0.0F, 0.0F, 0.0F, 6.0F, 6.0F}});
  EXPECT_EQ(roi_align(map, rois, {}).scalar_type(), at::kBFloat16);
  EXPECT_THROW(roi_align(map, rois.to(at::kHalf), {}), Error);
}

}  // namespace
}  // namespace detforge
