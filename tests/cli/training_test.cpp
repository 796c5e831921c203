// The whole program on a small made dataset: train, resume, kill, evaluate, predict.
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <random>
#include <regex>
#include <stdexcept>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <zip.h>

#include "cli/program.h"
#include "cli/training_cli.h"
#include "detforge/core/files.h"
#include "support/test_data.h"

namespace detforge::test {
namespace {

namespace fs = std::filesystem;

TEST_F(TrainingCli, ResumedRunEqualsUninterruptedRunByteForByteForAnyLoaderThreads) {
  std::string expected;
  for (const std::string threads : {"1", "2", "4"}) {
    const Words words{"SOLVER.MAX_ITER",        "40",   "SOLVER.CHECKPOINT_PERIOD", "20",
                      "DATALOADER.NUM_WORKERS", threads};
    ProgramResult result = run(train_words("straight" + threads, words));
    ASSERT_EQ(result.exit_code, 0) << result.err;

    // Killed at some moment after step 20, then continued to 40.
    const pid_t child = start(train_words("broken" + threads, words));
    wait_until(child, [&] { return fs::exists(checkpoint("broken" + threads)); });
    kill_hard(child);
    result = run({"train", "--resume", "broken" + threads});
    ASSERT_EQ(result.exit_code, 0) << result.err;

    const std::string weights = tensor_bytes(checkpoint("straight" + threads));
    EXPECT_EQ(weights == tensor_bytes(checkpoint("broken" + threads)), true)
        << threads << " loader threads";
    expected = expected.empty() ? weights : expected;
    EXPECT_EQ(weights == expected, true) << "1 and " << threads << " loader threads differ";
  }
}

// DETFORGE_KILLS sets how often (the acceptance run: 50).
TEST_F(TrainingCli, KilledAtRandomMomentsItAlwaysResumes) {
  const char* wish = std::getenv("DETFORGE_KILLS");
  const int kills = wish != nullptr ? std::atoi(wish) : 5;
  const unsigned seed = std::random_device{}();
  std::mt19937 random(seed);
  SCOPED_TRACE("seed " + std::to_string(seed));
  pid_t child =
      start(train_words("run", {"SOLVER.MAX_ITER", "100000", "SOLVER.CHECKPOINT_PERIOD", "1"}));
  wait_until(child, [&] { return fs::exists(checkpoint("run")); });
  for (int i = 0; i < kills; ++i) {
    std::this_thread::sleep_for(
        std::chrono::milliseconds(std::uniform_int_distribution<>(0, 900)(random)));
    kill_hard(child);
    EXPECT_NO_THROW(tensor_bytes(checkpoint("run"))) << "torn file after kill " << i;
    const auto before = fs::last_write_time(checkpoint("run"));
    child = start({"train", "--resume", "run"});
    wait_until(child,
               [&] { return fs::last_write_time(checkpoint("run")) > before; });  // it goes on
    EXPECT_NE(files::read(folder_ / "err").find("resumed from"), std::string::npos) << "kill " << i;
  }
  kill_hard(child);
  for (const auto& entry : fs::directory_iterator(folder_ / "run" / "checkpoints")) {
    EXPECT_NE(entry.path().extension(), ".damaged");
  }
}

TEST_F(TrainingCli, SigtermSavesAndExitsCleanlyAndTheFolderIsLockedMeanwhile) {
  const pid_t child =
      start(train_words("run", {"SOLVER.MAX_ITER", "100000", "SOLVER.CHECKPOINT_PERIOD", "3"}));
  wait_until(child, [&] { return fs::exists(checkpoint("run")); });
  const ProgramResult second = run({"train", "--resume", "run"});
  EXPECT_EQ(second.exit_code, 1);
  EXPECT_NE(second.err.find("in use by another run"), std::string::npos) << second.err;
  ::kill(child, SIGTERM);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_NE(files::read(folder_ / "run" / "log.txt").find("stopped"), std::string::npos);
}

TEST_F(TrainingCli, SigtermDuringAnEvaluationGivesItUpAndStopsCleanly) {
  const ProgramResult made =
      run({"make-shapes", "many", "--train", "4", "--val", "400", "--size", "96x96"});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  const pid_t child = start(train_words(
      "run", {"SOLVER.MAX_ITER", "100000", "TEST.EVAL_PERIOD", "2", "SOLVER.CHECKPOINT_PERIOD", "2",
              "DATASETS.TEST_JSON", "[many/annotations/instances_val.json]", "DATASETS.TEST_IMAGES",
              "[many/val]"}));
  wait_until(child, [&] { return fs::exists(checkpoint("run")); });  // the evaluation comes next
  ::kill(child, SIGTERM);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  const std::string log = files::read(folder_ / "run" / "log.txt");
  EXPECT_NE(log.find("given up because of SIGTERM"), std::string::npos) << log;
  EXPECT_NE(log.find("stopped cleanly after iteration 2"), std::string::npos) << log;
}

TEST_F(TrainingCli, TrainEvalPredictAndTheFilesTheyLeave) {
  ProgramResult result =
      run(train_words("run", {"SOLVER.MAX_ITER", "4", "SOLVER.CHECKPOINT_PERIOD", "2"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  for (const char* file :
       {"config.yaml", "metrics.jsonl", "log.txt", "checkpoints/last.pth", "checkpoints/best.pth",
        "eval/iter_4/results.json", "eval/iter_4/metrics.json", "eval/iter_4/per_class.csv",
        "pictures/train_batch.jpg"}) {
    EXPECT_TRUE(fs::exists(folder_ / "run" / file)) << file;
  }
  result = run({"eval", "run", "--output", "judged"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find("Average Precision  (AP) @[ IoU=0.50:0.95"), std::string::npos)
      << result.out;
  EXPECT_EQ(files::read(folder_ / "judged" / "results.json"),
            files::read(folder_ / "run/eval/iter_4/results.json"));

  result = run({"predict", "run/checkpoints/best.pth", "shapes/val", "--output", "drawn", "--json",
                "found.json"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const auto found = nlohmann::json::parse(files::read(folder_ / "found.json"));
  EXPECT_EQ(found.size(), 3u);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_ / "drawn"), {}), 3);
}

TEST_F(TrainingCli, TheAllocatorChangesMemoryAndNoWeights) {
  std::string weights[2];
  for (const bool caches : {false, true}) {
    const std::string name = caches ? "caching" : "system";
    Words words =
        train_words(name, {"SOLVER.MAX_ITER", "3", "INPUT.MIN_SIZE_TRAIN", "[160]", "-v"});
    if (!caches) {
      words.insert(words.end(), {"--allocator", "system"});
    }
    const ProgramResult result = run(words);
    ASSERT_EQ(result.exit_code, 0) << result.err;
    weights[caches ? 1 : 0] = tensor_bytes(checkpoint(name));
    const std::string metrics = files::read(folder_ / name / "metrics.jsonl");
    EXPECT_EQ(metrics.find("max_tensor_mem") != std::string::npos, caches) << metrics;
    const std::regex some_memory("[1-9][0-9]* MiB of free tensor memory given back");
    EXPECT_EQ(std::regex_search(result.err, some_memory), caches) << result.err;
  }
  EXPECT_TRUE(weights[0] == weights[1]);
}

TEST_F(TrainingCli, NewRunDoesNotOverwriteAnOldOneAndNothingToDoIsNoSuccess) {
  const Words short_run =
      train_words("run", {"SOLVER.MAX_ITER", "2", "SOLVER.CHECKPOINT_PERIOD", "1"});
  ASSERT_EQ(run(short_run).exit_code, 0);
  const ProgramResult again = run(short_run);
  EXPECT_EQ(again.exit_code, 2);
  EXPECT_NE(again.err.find("--resume"), std::string::npos) << again.err;
  const ProgramResult done = run({"train", "--resume", "run"});
  EXPECT_EQ(done.exit_code, 1);
  EXPECT_NE(done.err.find("nothing to do"), std::string::npos) << done.err;
  EXPECT_NE(files::read(folder_ / "run" / "log.txt").find("nothing to do"), std::string::npos);
}

TEST_F(TrainingCli, ResumeTakesALongerScheduleAndRefusesAnotherModel) {
  ASSERT_EQ(
      run(train_words("run", {"SOLVER.MAX_ITER", "2", "SOLVER.CHECKPOINT_PERIOD", "1"})).exit_code,
      0);
  const ProgramResult other = run({"train", "--resume", "run", "MODEL.FPN.OUT_CHANNELS", "64"});
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_NE(other.err.find("MODEL.FPN.OUT_CHANNELS"), std::string::npos) << other.err;
  const ProgramResult longer = run({"train", "--resume", "run", "SOLVER.MAX_ITER", "3"});
  EXPECT_EQ(longer.exit_code, 0) << longer.err;
  EXPECT_NE(longer.err.find("changed on resume: SOLVER.MAX_ITER"), std::string::npos) << longer.err;
}

TEST_F(TrainingCli, WrongNumberOfClassesIsAUsageErrorThatNamesThem) {
  const ProgramResult result = run(train_words("run", {"MODEL.ROI_HEADS.NUM_CLASSES", "9"}));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.err.find("add MODEL.ROI_HEADS.NUM_CLASSES 4"), std::string::npos) << result.err;
}

}  // namespace
}  // namespace detforge::test
