// The whole program in mixed precision: train, resume, and what a run that overflows leaves behind.
#include <cmath>
#include <gmock/gmock.h>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "cli/training_cli.h"
#include "detforge/core/files.h"

namespace detforge::test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

class PrecisionTrainingCli : public TrainingCli {
 protected:
  Words o2(Words more) const {
    const Words words{"AMP",
                      "1",
                      "OPT_LEVEL",
                      "O2",
                      "LOSS_SCALE_VALUE",
                      "dynamic",
                      "SOLVER.MAX_ITER",
                      "4",
                      "SOLVER.CHECKPOINT_PERIOD",
                      "2"};
    more.insert(more.begin(), words.begin(), words.end());
    return more;
  }
};

TEST_F(PrecisionTrainingCli, O2ResumesToTheByte) {
  ProgramResult result = run(train_words("straight", o2({})));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("precision O2: maps and weights f16, f32 masters, norms f32"));
  EXPECT_THAT(files::read(folder_ / "straight/metrics.jsonl"), HasSubstr("\"loss_scale\""));
  result = run(train_words("broken", o2({"MODEL.BACKBONE.CHECKPOINT", "False"})));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  // As if it had been killed behind step 2.
  const fs::path checkpoints = folder_ / "broken/checkpoints";
  fs::remove(checkpoints / "iter_4.pth");
  fs::remove(checkpoints / "best.pth");
  fs::copy_file(checkpoints / "iter_2.pth", checkpoints / "last.pth",
                fs::copy_options::overwrite_existing);
  result = run({"train", "--resume", "broken"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(tensor_bytes(checkpoint("broken")), tensor_bytes(checkpoint("straight")));
  result = run({"doctor", "straight"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("4 of 4 logged"), HasSubstr("O2: maps and weights f16"),
                                HasSubstr("waiting for data")));
  // The same weights in f32, which is what a checkpoint holds.
  result = run({"eval", "straight", "--output", "judged"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  result = run(train_words("f32", {"--init", checkpoint("straight").string(), "SOLVER.MAX_ITER",
                                   "2", "SOLVER.CHECKPOINT_PERIOD", "2"}));
  EXPECT_EQ(result.exit_code, 0) << result.err;
}

// FIELD_REPORTS F49, F42: activations that overflow are found where they begin.
TEST_F(PrecisionTrainingCli, AnOverflowingNetworkStopsAndReplayNamesItsFirstLayer) {
  const Words overflowing{"MODEL.PIXEL_STD", "[0.002, 0.002, 0.002]", "SOLVER.MAX_ITER", "100"};
  ProgramResult result = run(train_words("run", o2(overflowing)));
  EXPECT_EQ(result.exit_code, 1);
  const char* layer = "first layer whose output is not finite: backbone.bottom_up.stem.conv1 gives";
  EXPECT_THAT(result.err, AllOf(HasSubstr("training diverged"), HasSubstr(layer),
                                HasSubstr("loss scale is 1;"), HasSubstr("HALF_TYPE bf16")));
  const std::string bundle = "run/nonfinite_iter_0.pth";
  ASSERT_TRUE(fs::exists(folder_ / bundle));
  result = run({"replay", bundle});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("step 0 of 2 image(s), O2"), HasSubstr(layer)));
  result = run({"replay", bundle, "HALF_TYPE", "bf16"});
  EXPECT_THAT(result.out, HasSubstr("now: everything is finite"));
  result = run({"doctor", "run"});
  EXPECT_THAT(result.out, HasSubstr("detforge replay run/nonfinite_iter_0.pth"));
  result = run({"replay", "run/config.yaml"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("run/config.yaml"));
}

TEST_F(PrecisionTrainingCli, FlagsOfTheAscendScripts) {
  ProgramResult result = run(train_words("run", {"--fp32", "--hf32"}));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("--fp32 and --hf32 do not go together"));
  result = run(train_words("run", o2({"--hf32"})));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, AllOf(HasSubstr("precision O0: everything f32"),
                                HasSubstr("FLOAT32_PRECISION high has no effect")));
}

TEST_F(PrecisionTrainingCli, ModesSideBySideAndTheirMemory) {
  const std::string recipe = (source_dir() / "configs/shapes.yaml").string();
  ProgramResult result = run({"bench", "train", recipe, "--size", "64x64", "--iters", "1",
                              "--modes", "fp32,o1,o2-bf16-checkpoint", "--json", "modes.json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto table = nlohmann::json::parse(files::read(folder_ / "modes.json"));
  ASSERT_EQ(table.size(), 3u);
  EXPECT_EQ(table[2]["mode"], "o2-bf16-checkpoint");
  for (const auto& mode : table) {
    EXPECT_LT(std::abs(mode["loss_difference"].get<double>()), 0.05) << mode;
  }
  result = run({"bench", "train", recipe, "--modes", "fp16"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("there is no mode \"fp16\""));
  result = run({"inspect", recipe, "--size", "128x128", "--memory", "--modes", "o2"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("masters"), HasSubstr("o2 ")));
  result =
      run({"inspect", recipe, "--size", "64x64", "--precision", "AMP", "1", "OPT_LEVEL", "O2"});
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("roi_heads.box_head.fc1"), HasSubstr("copies of 16-bit maps: none")));
}

// F51: nothing asks the network for anything.
TEST_F(PrecisionTrainingCli, TrainsWithoutANetwork) {
  const fs::path unshare = "/usr/bin/unshare";
  if (!fs::exists(unshare) ||
      run_program(unshare, {"-r", "-n", "/bin/true"}, folder_.path()).exit_code != 0) {
    GTEST_SKIP() << "no right to make a network namespace (unshare -rn)";
  }
  Words words = train_words("run", o2({"SOLVER.MAX_ITER", "2"}));
  words.insert(words.begin(), {"-r", "-n", program_path().string()});
  const ProgramResult result = run_program(unshare, words, folder_.path());
  EXPECT_EQ(result.exit_code, 0) << result.err;
}

}  // namespace
}  // namespace detforge::test
