#include "detforge/train/checkpoint.h"

#include <cstdlib>
#include <limits>
#include <sys/wait.h>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "detforge/core/error.h"
#include "detforge/core/files.h"
#include "detforge/distributed/single_process.h"
#include "detforge/train/model_state.h"
#include "support/test_data.h"
#include "support/torch/tensors.h"
#include "train/toy.h"

namespace detforge {
namespace {

namespace fs = std::filesystem;

/// A run of the toy detector in a folder, as cli/train sets it up.
struct ToyRun {
  explicit ToyRun(const fs::path& folder, std::int64_t keep = 2, bool averaged = false)
      : ema(averaged ? std::make_unique<Ema>(detector, EmaOptions{.decay = 0.9, .tau = 5})
                     : nullptr),
        checkpointer({.folder = folder, .keep_periodic = keep},
                     {.class_names = {"disc", "box"},
                      .category_ids = {3, 1LL << 40},
                      .pixel_mean = {1, 2, 3},
                      .pixel_std = {1, 1, 1},
                      .config_yaml = "SOLVER: {}\n",
                      .version = "test"},
                     detector,
                     sgd,
                     source,
                     ema.get()) {}

  LoopResult train_to(std::int64_t end, TrainProgress start = {}, std::int64_t period = 1) {
    CheckpointHook hook(checkpointer, period, alone);
    return train({detector, sgd, schedule, source, alone, ema.get()},
                 {.max_iter = end, .start = start}, {&hook});
  }

  test::ToyDetector detector;
  Sgd sgd{detector, {}};
  test::ToySource source;
  SingleProcess alone;
  LrSchedule schedule{{.base_lr = 0.05, .max_iter = 40, .steps = {30}, .warmup_iters = 10}};
  std::unique_ptr<Ema> ema;
  Checkpointer checkpointer;
};

TEST(Checkpoint, FortyStepsEqualTwentyAndResumedTwentyToTheByte) {
  const test::TemporaryFolder straight, broken;
  ToyRun(straight.path()).train_to(40);
  ToyRun(broken.path()).train_to(20);
  ToyRun resumed(broken.path());
  const auto progress = resumed.checkpointer.resume();
  ASSERT_TRUE(progress);
  EXPECT_EQ(*progress, (TrainProgress{.iteration = 20, .images_seen = 40}));
  resumed.train_to(40, *progress);
  EXPECT_EQ(files::read(straight / "last.pth"), files::read(broken / "last.pth"));
}

TEST(Checkpoint, ResumedAveragingEqualsTheStraightRunToTheByte) {
  const test::TemporaryFolder straight, broken;
  ToyRun(straight.path(), 2, true).train_to(40);
  ToyRun(broken.path(), 2, true).train_to(20);
  ToyRun resumed(broken.path(), 2, true);
  resumed.train_to(40, *resumed.checkpointer.resume());
  EXPECT_EQ(resumed.ema->updates(), 40);
  EXPECT_EQ(files::read(straight / "last.pth"), files::read(broken / "last.pth"));
}

TEST(Checkpoint, AveragingThatBeginsAtAResumeStartsFromTheSavedWeights) {
  const test::TemporaryFolder folder;
  ToyRun(folder.path()).train_to(3);
  ToyRun resumed(folder.path(), 2, true);
  resumed.checkpointer.resume();
  EXPECT_EQ(resumed.ema->updates(), 0);
  EXPECT_TRUE(torch::equal(resumed.ema->state()[0].second, resumed.detector.weight));
}

TEST(Checkpoint, SavingTheSameStateGivesTheSameBytes) {
  const test::TemporaryFolder folder;
  ToyRun run(folder.path());
  run.train_to(3);
  const std::string first = files::read(folder / "last.pth");
  run.checkpointer.save({.iteration = 3, .images_seen = 6});
  EXPECT_EQ(files::read(folder / "last.pth"), first);
}

TEST(Checkpoint, KeepsTheNewestPeriodicFilesOnly) {
  const test::TemporaryFolder folder;
  ToyRun(folder.path(), 2).train_to(12, {}, 4);
  EXPECT_FALSE(fs::exists(folder / "iter_4.pth"));
  for (const char* name : {"iter_8.pth", "iter_12.pth", "last.pth"}) {
    EXPECT_TRUE(fs::exists(folder / name)) << name;
  }
}

TEST(Checkpoint, FolderWithoutCheckpointsHasNothingToResume) {
  const test::TemporaryFolder folder;
  ToyRun run(folder / "never made");
  EXPECT_FALSE(run.checkpointer.has_checkpoints());
  EXPECT_FALSE(run.checkpointer.resume());
}

TEST(Checkpoint, RefusesToOverwriteALaterStep) {
  const test::TemporaryFolder folder;
  ToyRun(folder.path()).train_to(5);
  const std::string before = files::read(folder / "last.pth");
  ToyRun again(folder.path());
  EXPECT_TRUE(again.checkpointer.has_checkpoints());
  EXPECT_THROW(again.checkpointer.save({.iteration = 4}), Error);
  EXPECT_EQ(files::read(folder / "last.pth"), before);
}

TEST(Checkpoint, NeverWritesAModelThatIsNotFinite) {
  const test::TemporaryFolder folder;
  ToyRun run(folder.path());
  run.train_to(2);
  const std::string before = files::read(folder / "last.pth");
  torch::NoGradGuard no_grad;
  run.detector.weight[0][0][0][0] = std::numeric_limits<float>::infinity();
  try {
    run.checkpointer.save({.iteration = 3});
    FAIL() << "no Error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("weight is not finite"), std::string::npos)
        << error.what();
  }
  EXPECT_EQ(files::read(folder / "last.pth"), before);
}

TEST(Checkpoint, BestIsReplacedOnlyByABetterMetricAlsoAfterARestart) {
  const test::TemporaryFolder folder;
  {
    ToyRun run(folder.path());
    EXPECT_TRUE(run.checkpointer.save_best({.iteration = 1}, 0.25));
    EXPECT_FALSE(run.checkpointer.save_best({.iteration = 2}, 0.25));
  }
  ToyRun run(folder.path());
  EXPECT_FALSE(run.checkpointer.save_best({.iteration = 3}, 0.2));
  EXPECT_TRUE(run.checkpointer.save_best({.iteration = 4}, 0.3));
  EXPECT_EQ(peek_checkpoint(folder / "best.pth")->metric, 0.3);
  EXPECT_EQ(peek_checkpoint(folder / "best.pth")->iteration, 4);
}

TEST(Checkpoint, OtherModelIsRefusedByName) {
  const test::TemporaryFolder folder;
  ToyRun(folder.path()).train_to(1);
  ToyRun run(folder.path());
  run.detector.register_buffer("extra", torch::zeros({1}));
  try {
    run.checkpointer.resume();
    FAIL() << "no Error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("the saved model has no extra"), std::string::npos)
        << error.what();
  }
}

TEST(CheckpointProperty, EveryTruncationIsFoundAndTheNextOlderUsed) {
  const test::TemporaryFolder folder;
  ToyRun(folder.path()).train_to(2);
  const std::string whole = files::read(folder / "last.pth");
  const std::string older = files::read(folder / "iter_1.pth");
  for (std::size_t size = 0; size < whole.size(); size += whole.size() / 23 + 1) {
    for (const char* name : {"last.pth", "iter_2.pth"}) {
      files::write_atomic(folder / name, whole.substr(0, size));
    }
    ToyRun run(folder.path());
    const auto progress = run.checkpointer.resume();
    ASSERT_TRUE(progress) << size;
    EXPECT_EQ(progress->iteration, 1) << size;
    EXPECT_TRUE(fs::exists(folder / "last.pth.damaged"));
  }
}

TEST(CheckpointProperty, EveryFlippedBitIsFound) {
  const test::TemporaryFolder folder;
  ToyRun(folder.path()).train_to(1);
  const std::string whole = files::read(folder / "last.pth");
  Rng rng(3, RngPurpose::kTest);
  for (int trial = 0; trial < 200; ++trial) {
    std::string flipped = whole;
    // The first trials hit the seal at the end, byte by byte.
    const std::size_t at =
        trial < 93 ? whole.size() - 1 - static_cast<std::size_t>(trial) : rng.below(whole.size());
    flipped[at] = static_cast<char>(flipped[at] ^ (1 << rng.below(8)));
    files::write_atomic(folder / "flipped.pth", flipped);
    EXPECT_THROW(read_checkpoint(folder / "flipped.pth"), Error)
        << "byte " << at << " of " << whole.size();
  }
}

TEST(Checkpoint, AllDamagedIsAnError) {
  const test::TemporaryFolder folder;
  files::write_atomic(folder / "last.pth", "no zip");
  ToyRun run(folder.path());
  EXPECT_THROW(run.checkpointer.resume(), Error);
}

TEST(Checkpoint, RemovesTemporariesOfAKilledProcess) {
  const test::TemporaryFolder folder;
  files::write_atomic(folder / "last.pth.detforge-tmp-1", "half");
  const ToyRun run(folder.path());
  EXPECT_FALSE(fs::exists(folder / "last.pth.detforge-tmp-1"));
}

TEST(Checkpoint, FailedSaveIsRetriedWhileTheRunGoesOnAndAnErrorAtItsEnd) {
  const test::TemporaryFolder folder;
  const fs::path target = folder / "checkpoints";
  files::write_atomic(target, "a file where the folder should be");
  ToyRun run(target);
  SingleProcess alone;
  CheckpointHook checkpoints(run.checkpointer, 2, alone);
  std::int64_t steps = 0;
  test::CallHook repair([&](const StepReport& report) {
    steps = report.progress.iteration;
    if (steps == 5) {
      fs::remove(target);  // "space was freed"
    }
    if (steps == 7) {
      EXPECT_EQ(peek_checkpoint(target / "last.pth")->iteration, 6);
      fs::remove_all(target);
      files::write_atomic(target, "full again");
    }
  });
  EXPECT_THROW(train({run.detector, run.sgd, run.schedule, run.source, run.alone}, {.max_iter = 8},
                     {&checkpoints, &repair}),
               Error);
  EXPECT_EQ(steps, 7);
}

TEST(Checkpoint, PythonReadsEverything) {
  const test::TemporaryFolder folder;
  ToyRun run(folder.path(), 2, true);
  run.train_to(3);
  const std::string script =
      "import json, sys\n"
      "try:\n"
      "  import torch\n"
      "except ImportError:\n"
      "  sys.exit(3)\n"
      "c = torch.load(sys.argv[1])\n"
      "out = {k: c[k] for k in ('iteration', 'images_seen', 'sampler', 'class_names', "
      "'category_ids', 'pixel_format', 'ema_updates',"
      " 'config', 'version', 'pixel_mean', 'scheduler')}\n"
      "out['weight'] = c['model']['weight'].double().sum().item()\n"
      "out['momentum'] = c['optimizer']['momentum']['weight'].double().sum().item()\n"
      "out['averaged'] = c['ema']['weight'].double().sum().item()\n"
      "out['passes'] = c['model']['passes'].item()\n"
      "json.dump(out, open(sys.argv[2], 'w'))\n";
  files::write_atomic(folder / "read.py", script);
  const std::string command = "/usr/bin/python3 " + (folder / "read.py").string() + " " +
                              (folder / "last.pth").string() + " " + (folder / "out.json").string();
  const int status = WEXITSTATUS(std::system(command.c_str()));
  if (status == 3 || status == 127) {
    GTEST_SKIP() << "no python3-torch";
  }
  ASSERT_EQ(status, 0);
  const auto seen = nlohmann::json::parse(files::read(folder / "out.json"));
  EXPECT_EQ(seen["iteration"], 3);
  EXPECT_EQ(seen["images_seen"], 6);
  EXPECT_EQ(seen["sampler"], "3");
  EXPECT_EQ(seen["class_names"], nlohmann::json({"disc", "box"}));
  EXPECT_EQ(seen["category_ids"][1], 1LL << 40);
  EXPECT_EQ(seen["pixel_mean"], nlohmann::json({1.0, 2.0, 3.0}));
  EXPECT_EQ(seen["scheduler"]["last_epoch"], 3);
  EXPECT_EQ(seen["passes"], 3);
  const auto sum = [](const Tensor& tensor) {
    return tensor.detach().to(torch::kDouble).sum().item<double>();
  };
  EXPECT_NEAR(seen["weight"], sum(run.detector.weight), 1e-12);
  EXPECT_EQ(seen["ema_updates"], 3);
  EXPECT_NEAR(seen["averaged"], sum(run.ema->state()[0].second), 1e-12);
  EXPECT_NE(seen["averaged"], seen["weight"]);
  EXPECT_NEAR(seen["momentum"], sum(run.sgd.state()[0].second), 1e-12);
}

}  // namespace
}  // namespace detforge
