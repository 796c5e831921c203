#pragma once

#include <csignal>
#include <filesystem>
#include <functional>
#include <string>
#include <sys/types.h>
#include <sys/wait.h>
#include <vector>

#include <gtest/gtest.h>

#include "cli/program.h"
#include "support/test_data.h"

namespace detforge::test {

using Words = std::vector<std::string>;

/// The bytes of all tensors in a checkpoint (weights, momentum), without the text beside them
/// (config, paths).
std::string tensor_bytes(const std::filesystem::path& checkpoint);

/// Waits for `there()` while the process lives.
void wait_until(pid_t child, const std::function<bool()>& there);

/// A folder with a tiny dataset and the words that train a tiny model on it.
class TrainingCli : public testing::Test {
 protected:
  void SetUp() override {
    DETFORGE_REQUIRE_PROGRAM();
    const ProgramResult made =
        run({"make-shapes", "shapes", "--train", "12", "--val", "3", "--size", "96x96"});
    ASSERT_EQ(made.exit_code, 0) << made.err;
  }

  ProgramResult run(const Words& words, const Words& environment = {}) const {
    return run_program(program_path(), words, folder_.path(), environment);
  }
  pid_t start(const Words& words) const {
    return start_program(program_path(), words,
                         {.folder = folder_.path(),
                          .out_file = "/dev/null",
                          .err_file = (folder_ / "err").string()});
  }
  /// SIGKILL, which no program can prepare for.
  static void kill_hard(pid_t child) {
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }

  Words train_words(const std::string& output,
                    const Words& more,
                    const std::string& recipe = "shapes.yaml") const {
    Words words{"train",
                (source_dir() / "configs" / recipe).string(),
                "--output",
                output,
                "--data",
                ".",
                "DATASETS.TRAIN_JSON",
                "[shapes/annotations/instances_train.json]",
                "DATASETS.TRAIN_IMAGES",
                "[shapes/train]",
                "DATASETS.TEST_JSON",
                "[shapes/annotations/instances_val.json]",
                "DATASETS.TEST_IMAGES",
                "[shapes/val]",
                "INPUT.MIN_SIZE_TRAIN",
                "[64]",
                "INPUT.MIN_SIZE_TEST",
                "64",
                "MODEL.RESNETS.STEM_OUT_CHANNELS",
                "32",
                "MODEL.FPN.OUT_CHANNELS",
                "32",
                "MODEL.ROI_BOX_HEAD.FC_DIM",
                "32",
                "SOLVER.IMS_PER_BATCH",
                "2",
                "SOLVER.STEPS",
                "[]",
                "SOLVER.WARMUP_ITERS",
                "4",
                "TEST.EVAL_PERIOD",
                "0",
                "SEED",
                "7"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  std::filesystem::path checkpoint(const std::string& run_folder) const {
    return folder_ / run_folder / "checkpoints" / "last.pth";
  }

  TemporaryFolder folder_;
};

}  // namespace detforge::test
