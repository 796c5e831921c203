#include "detforge/train/loop.h"

#include <csignal>
#include <limits>

#include <gtest/gtest.h>

#include "detforge/core/error.h"
#include "detforge/core/files.h"
#include "detforge/distributed/single_process.h"
#include "detforge/serialize/torch_file.h"
#include "detforge/train/checkpoint.h"
#include "detforge/train/evaluation_hook.h"
#include "detforge/train/model_state.h"
#include "detforge/train/nonfinite.h"
#include "detforge/train/run_lock.h"
#include "detforge/train/signals.h"
#include "support/test_data.h"
#include "train/toy.h"

namespace detforge {
namespace {

struct LoopTest : testing::Test {
  TrainParts parts() { return {detector, sgd, schedule, source, alone}; }

  test::TemporaryFolder folder;
  test::ToyDetector detector;
  Sgd sgd{detector, {}};
  test::ToySource source;
  SingleProcess alone;
  LrSchedule schedule{
      {.base_lr = 0.01, .max_iter = 40, .steps = {}, .warmup_iters = 4, .warmup_factor = 0}};
  Checkpointer checkpointer{{.folder = folder / "checkpoints"}, {}, detector, sgd, source};
};

TEST_F(LoopTest, HooksSeeEveryStepWithItsRate) {
  std::vector<double> rates;
  std::vector<bool> last;
  test::CallHook hook([&](const StepReport& report) {
    EXPECT_EQ(report.progress.iteration, report.iteration + 1);
    EXPECT_GE(report.step_s, report.data_s);
    rates.push_back(report.lr);
    last.push_back(report.last);
  });
  const LoopResult result = train(parts(), {.max_iter = 3}, {&hook});
  EXPECT_EQ(result.reason, StopReason::kFinished);
  EXPECT_EQ(result.progress, (TrainProgress{.iteration = 3, .images_seen = 6}));
  EXPECT_EQ(rates, (std::vector<double>{0, 0.0025, 0.005}));
  EXPECT_EQ(last, (std::vector<bool>{false, false, true}));
}

TEST_F(LoopTest, NothingToTrainIsAnError) {
  EXPECT_THROW(train(parts(), {.max_iter = 5, .start = {.iteration = 5}}, {}), Error);
}

TEST_F(LoopTest, SigtermSavesAfterTheStepInProgressAndReturns) {
  CheckpointHook checkpoints(checkpointer, 100, alone);
  test::CallHook killer([&](const StepReport& report) {
    if (report.iteration == 6) {
      std::raise(SIGTERM);  // arrives between steps: step 7 is still done
    }
  });
  const LoopResult result = train(parts(), {.max_iter = 40}, {&killer, &checkpoints});
  EXPECT_EQ(result.reason, StopReason::kSignal);
  EXPECT_EQ(result.progress.iteration, 8);
  EXPECT_EQ(peek_checkpoint(folder / "checkpoints" / "last.pth")->iteration, 8);
}

TEST(StopSignals, RestoreTheFormerHandlers) {
  static volatile std::sig_atomic_t calls = 0;
  const auto before = std::signal(SIGINT, [](int) { calls = calls + 1; });
  {
    const StopSignals signals;
    EXPECT_EQ(signals.received(), nullptr);
    std::raise(SIGINT);
    EXPECT_STREQ(signals.received(), "SIGINT");
    EXPECT_THROW(StopSignals{}, Error);
  }
  EXPECT_EQ(calls, 0);
  std::raise(SIGINT);
  EXPECT_EQ(calls, 1);
  std::signal(SIGINT, before);
}

TEST_F(LoopTest, PoisonedWeightsEndTheRunAndTheLastCheckpointIsFinite) {
  const Precision f32;
  NonFiniteGuard guard(
      detector, f32,
      {.max_consecutive_skips = 3, .folder = folder.path(), .config_yaml = "A: 1\n"});
  CheckpointHook checkpoints(checkpointer, 1, alone);
  test::CallHook poison([&](const StepReport& report) {
    if (report.progress.iteration == 20) {
      torch::NoGradGuard no_grad;
      detector.weight[0][0][0][0] = std::numeric_limits<float>::quiet_NaN();
    }
  });
  std::string message;
  try {
    train(parts(), {.max_iter = 40}, {&guard, &checkpoints, &poison});
  } catch (const Error& error) {
    message = error.what();
  }
  // Steps 20, 21 and 22 are skipped, 23 is one too many.
  EXPECT_EQ(guard.skipped(), 4);
  for (const char* part : {"loss_cls = nan", "iteration 23", "image46.jpg", "46, 47",
                           "last finite at iteration 19", "lr 0.01"}) {
    EXPECT_NE(message.find(part), std::string::npos) << part << " is not in: " << message;
  }
  const Value last = read_checkpoint(folder / "checkpoints" / "last.pth");
  EXPECT_EQ(last.item("last")["iteration"].integer(), 20);
  EXPECT_EQ(first_nonfinite(to_named_tensors(last.item("last")["model"])), "");
}

TEST_F(LoopTest, ReplayBundleHoldsTheBatchAndTheWeights) {
  const Precision f32;
  NonFiniteGuard guard(detector, f32, {.folder = folder.path(), .config_yaml = "A: 1\n"});
  test::CallHook poison([&](const StepReport& report) {
    torch::NoGradGuard no_grad;
    detector.weight[0][0][0][0] =
        report.iteration == 1 ? std::numeric_limits<float>::quiet_NaN() : 0.0f;
  });
  train(parts(), {.max_iter = 5}, {&guard, &poison});
  EXPECT_EQ(guard.skipped(), 1);
  const Value bundle = read_torch_file(folder / "nonfinite_iter_2.pth");
  const Item root = bundle.item("bundle");
  EXPECT_EQ(root["config"].string(), "A: 1\n");
  EXPECT_EQ(root["batch"]["image_ids"][0].integer(), 4);
  test::ToySource again;
  again.restore("2");
  EXPECT_TRUE(torch::equal(root["batch"]["images"].tensor(), again.next().images.images));
  EXPECT_EQ(first_nonfinite(to_named_tensors(root["model"])), "weight");
}

TEST_F(LoopTest, EvaluatesPeriodicallyAndAtTheEndInEvalModeAndKeepsTheBest) {
  TrainingLog log({.folder = folder.path(), .max_iter = 5, .tensorboard = false});
  std::vector<std::int64_t> evaluated;
  EvaluationHook evaluation(
      [&](std::int64_t iteration) {
        EXPECT_FALSE(detector.is_training());
        evaluated.push_back(iteration);
        return EvaluationResult{.metric = 1.0 / static_cast<double>(iteration),
                                .values = {{"bbox/AP", 12.5}}};
      },
      2, detector, checkpointer, &log);
  train(parts(), {.max_iter = 5}, {&log, &evaluation});
  EXPECT_TRUE(detector.is_training());
  EXPECT_EQ(evaluated, (std::vector<std::int64_t>{2, 4, 5}));
  EXPECT_EQ(peek_checkpoint(folder / "checkpoints" / "best.pth")->iteration, 2);
  EXPECT_NE(files::read(folder / "metrics.jsonl").find("\"bbox/AP\":12.5"), std::string::npos);
}

TEST_F(LoopTest, EvaluatesTheAverageAndTrainsOnWithTheWeights) {
  test::ToyDetector plain;  // trained without an average
  Sgd plain_sgd{plain, {}};
  test::ToySource plain_source;
  train({plain, plain_sgd, schedule, plain_source, alone}, {.max_iter = 4}, {});

  Ema ema(detector, {.decay = 0.5, .tau = 0});
  Checkpointer averaging({.folder = folder / "checkpoints"}, {}, detector, sgd, source, &ema);
  TrainingLog log({.folder = folder.path(), .max_iter = 4, .tensorboard = false});
  std::vector<Tensor> evaluated;
  EvaluationHook evaluation(
      [&](std::int64_t iteration) -> EvaluationResult {
        evaluated.push_back(detector.weight.detach().clone());
        if (iteration == 2) {
          throw Error("no space left", "free some");
        }
        return {.metric = 0.5, .values = {}};
      },
      2, detector, averaging, &log, &ema);
  TrainParts averaged = parts();
  averaged.ema = &ema;
  train(averaged, {.max_iter = 4}, {&evaluation});
  EXPECT_TRUE(torch::equal(detector.weight, plain.weight));
  EXPECT_FALSE(torch::equal(evaluated[1], plain.weight));
  const Value best = read_checkpoint(folder / "checkpoints" / "best.pth");
  EXPECT_TRUE(torch::equal(best.item("best")["model"]["weight"].tensor(), plain.weight));
  EXPECT_TRUE(torch::equal(best.item("best")["ema"]["weight"].tensor(), evaluated[1]));
}

TEST_F(LoopTest, AverageBeginsAtTheWeightsThatTrainingBeginsWith) {
  Ema ema(detector, {.decay = 0.999, .tau = 0});
  {
    torch::NoGradGuard no_grad;
    detector.bias.fill_(100);  // loaded after the average was made
  }
  TrainParts averaged = parts();
  averaged.ema = &ema;
  train(averaged, {.max_iter = 2}, {});
  EXPECT_NEAR(ema.state()[1].second[0].item<double>(), 100, 1);
}

TEST_F(LoopTest, SkippedStepsDoNotEnterTheAverage) {
  Ema ema(detector, {});
  test::CallHook poison([&](const StepReport& report) {
    torch::NoGradGuard no_grad;
    detector.weight[0][0][0][0] =
        report.iteration == 1 ? std::numeric_limits<float>::quiet_NaN() : 0.0f;
  });
  TrainParts averaged = parts();
  averaged.ema = &ema;
  train(averaged, {.max_iter = 5}, {&poison});
  EXPECT_EQ(ema.updates(), 4);
  EXPECT_EQ(first_nonfinite(ema.state()), "");
}

TEST_F(LoopTest, UndefinedMetricMakesNoBestCheckpoint) {
  TrainingLog log({.folder = folder.path(), .max_iter = 1, .tensorboard = false});
  EvaluationHook evaluation([](std::int64_t) { return EvaluationResult{}; }, 1, detector,
                            checkpointer, &log);
  train(parts(), {.max_iter = 1}, {&evaluation});
  EXPECT_FALSE(std::filesystem::exists(folder / "checkpoints" / "best.pth"));
}

/// Throws in the middle of a run, as a loader does that meets a file it cannot read.
class BrokenSource : public test::ToySource {
 public:
  Batch next() override {
    if (state() == "3") {
      throw Error("cannot decode", "remove it").add_where("broken.jpg");
    }
    return test::ToySource::next();
  }
};

TEST_F(LoopTest, ErrorsOfTheLoaderEndTheRun) {
  BrokenSource broken;
  EXPECT_THROW(train({detector, sgd, schedule, broken, alone}, {.max_iter = 10}, {}), Error);
}

TEST(RunLock, SecondHolderIsRefusedAndAKilledRunIsNoticed) {
  const test::TemporaryFolder folder;
  {
    const RunLock lock(folder.path());
    EXPECT_FALSE(lock.previous_was_killed());
    EXPECT_THROW(RunLock{folder.path()}, Error);
    EXPECT_TRUE(std::filesystem::exists(folder / "running"));
  }
  EXPECT_FALSE(RunLock(folder.path()).previous_was_killed());
  files::write_atomic(folder / "running", "12345");  // what kill -9 leaves
  EXPECT_TRUE(RunLock(folder.path()).previous_was_killed());
}

}  // namespace
}  // namespace detforge
