#include "detforge/train/metrics.h"

#include <cmath>
#include <limits>
#include <sstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "detforge/core/files.h"
#include "support/test_data.h"
#include "train/toy.h"

namespace detforge {
namespace {

std::vector<nlohmann::json> read_lines(const std::filesystem::path& path) {
  std::vector<nlohmann::json> lines;
  std::istringstream stream(files::read(path));
  for (std::string line; std::getline(stream, line);) {
    lines.push_back(nlohmann::json::parse(line));
  }
  return lines;
}

/// Feeds steps whose loss, time and norm are chosen by `value`.
void feed(TrainingLog& log,
          std::int64_t first,
          std::int64_t end,
          std::int64_t max_iter,
          const std::function<double(std::int64_t)>& value) {
  test::ToySource source;
  const Batch batch = source.next();
  for (std::int64_t i = first; i < end; ++i) {
    StepResult result;
    result.images = batch.images.count();
    result.losses = {{"loss_cls", value(i)}, {"loss_mask", 1.0}};
    result.total = value(i) + 1;
    result.grad_norm = 2;
    result.nonfinite = std::isfinite(value(i)) ? "" : "loss_cls = nan";
    log.after_step({.iteration = i,
                    .batch = batch,
                    .result = result,
                    .lr = 0.5,
                    .data_s = 0.25,
                    .step_s = 0.5,
                    .progress = {.iteration = i + 1},
                    .last = i + 1 == max_iter,
                    .stopping = false});
  }
}

TEST(FpsMeter, FollowsTheReferenceFormulaWithItsOneStepLess) {
  // 14 steps of 2 images: steps 1 to 9 warm up; 10 to 14 take 5 x 0.5 s. FPS = 2 * (14 - 10) / 2.5
  // = 3.2.
  FpsMeter meter;
  for (int step = 1; step <= 14; ++step) {
    meter.add_step(step < 10 ? 100.0 : 0.5, 2);
  }
  EXPECT_DOUBLE_EQ(meter.fps(), 3.2);
}

TEST(FpsMeter, TenStepsAreTooFew) {
  FpsMeter meter;
  for (int step = 0; step < 10; ++step) {
    meter.add_step(1.0, 2);
  }
  EXPECT_EQ(meter.fps(), 0);
}

TEST(TrainingLog, WritesMediansEveryPeriodAndAtTheEnd) {
  const test::TemporaryFolder folder;
  TrainingLog log({.folder = folder.path(), .max_iter = 7, .period = 4, .tensorboard = false});
  feed(log, 0, 7, 7, [](std::int64_t i) { return static_cast<double>(i * i); });
  const auto lines = read_lines(folder / "metrics.jsonl");
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0]["iteration"], 3);   // as Detectron2 counts
  EXPECT_EQ(lines[0]["loss_cls"], 2.5);  // median of 0 1 4 9
  EXPECT_EQ(lines[0]["total_loss"], 3.5);
  EXPECT_EQ(lines[0]["loss_mask"], 1.0);
  EXPECT_EQ(lines[0]["lr"], 0.5);
  EXPECT_EQ(lines[0]["time"], 0.5);
  EXPECT_EQ(lines[0]["data_time"], 0.25);
  EXPECT_EQ(lines[0]["eta_seconds"], 1.5);  // 3 steps of 0.5 s
  EXPECT_EQ(lines[0]["images_per_s"], 4.0);
  EXPECT_GT(lines[0]["max_mem"], 1.0);
  EXPECT_EQ(lines[1]["iteration"], 6);
  EXPECT_EQ(lines[1]["loss_cls"], 25.0);  // median of 16 25 36
  EXPECT_FALSE(lines[1].contains("skipped_steps"));
}

TEST(TrainingLog, SaysTheEpochIfItKnowsItsLength) {
  const test::TemporaryFolder folder;
  TrainingLog log({.folder = folder.path(),
                   .max_iter = 6,
                   .period = 3,
                   .epoch_iters = 4,
                   .tensorboard = false});
  feed(log, 0, 6, 6, [](std::int64_t) { return 1.0; });
  const auto lines = read_lines(folder / "metrics.jsonl");
  EXPECT_EQ(lines.at(0)["epoch"], 0.75);  // 3 of 4 iterations
  EXPECT_EQ(lines.at(1)["epoch"], 1.5);
}

TEST(TrainingLog, SkippedStepsCountButDoNotEnterTheMedians) {
  const test::TemporaryFolder folder;
  TrainingLog log({.folder = folder.path(), .max_iter = 3, .period = 3, .tensorboard = false});
  feed(log, 0, 3, 3,
       [](std::int64_t i) { return i == 1 ? std::numeric_limits<double>::quiet_NaN() : 5.0; });
  const auto lines = read_lines(folder / "metrics.jsonl");
  EXPECT_EQ(lines.at(0)["loss_cls"], 5.0);
  EXPECT_EQ(lines.at(0)["skipped_steps"], 1.0);
}

TEST(TrainingLog, PeriodWithoutFiniteStepsIsNull) {
  const test::TemporaryFolder folder;
  TrainingLog log({.folder = folder.path(), .max_iter = 2, .period = 2, .tensorboard = false});
  feed(log, 0, 2, 2, [](std::int64_t) { return std::numeric_limits<double>::infinity(); });
  EXPECT_TRUE(read_lines(folder / "metrics.jsonl").at(0)["total_loss"].is_null());
}

TEST(TrainingLog, AResumedRunReplacesTheLinesThatComeAgainAndATornOne) {
  const test::TemporaryFolder folder;
  {
    TrainingLog log({.folder = folder.path(), .max_iter = 10, .period = 2, .tensorboard = false});
    feed(log, 0, 6, 10, [](std::int64_t) { return 1.0; });
  }
  files::append_line(folder / "metrics.jsonl", R"({"iteration": 7, "total)");
  TrainingLog log({.folder = folder.path(),
                   .max_iter = 10,
                   .start_iter = 4,
                   .period = 2,
                   .tensorboard = false});
  feed(log, 4, 8, 10, [](std::int64_t) { return 2.0; });
  std::vector<std::int64_t> iterations;
  for (const auto& line : read_lines(folder / "metrics.jsonl")) {
    iterations.push_back(line["iteration"]);
  }
  EXPECT_EQ(iterations, (std::vector<std::int64_t>{1, 3, 5, 7}));
}

}  // namespace
}  // namespace detforge
