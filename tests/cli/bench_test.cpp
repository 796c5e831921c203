// `detforge bench` on tiny images: what it writes adds up.

#include <gmock/gmock.h>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "cli/program.h"
#include "detforge/core/files.h"
#include "support/test_data.h"

namespace detforge {
namespace {

using Json = nlohmann::json;
using test::ProgramResult;
using test::run_program;
using test::TemporaryFolder;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;
using Words = std::vector<std::string>;

std::string recipe(const std::string& name) {
  return (test::source_dir() / "configs" / name).string();
}

class BenchCli : public testing::Test {
 protected:
  void SetUp() override { DETFORGE_REQUIRE_PROGRAM(); }

  /// Runs `detforge bench ...` on one image of 64x64 and reads the figures that it wrote.
  Json bench(Words words) const {
    words.insert(words.begin(), "bench");
    for (const char* word : {"--size", "64x64", "--batch", "1", "--threads", "1", "--json"}) {
      words.emplace_back(word);
    }
    words.push_back((folder_ / "figures.json").string());
    const ProgramResult result = run_program(test::program_path(), words, folder_.path());
    EXPECT_EQ(result.exit_code, 0) << result.err;
    output_ = result.out;
    return result.exit_code == 0 ? Json::parse(files::read(folder_ / "figures.json")) : Json();
  }

  TemporaryFolder folder_;
  mutable std::string output_;
};

TEST_F(BenchCli, TrainSaysWherePhasesAndOpsSpendTheStep) {
  const Json figures = bench({"train", recipe("shapes.yaml"), "--iters", "1"});
  double phases_s = 0;
  for (const char* phase : {"data s", "forward s", "backward s", "optimizer s"}) {
    EXPECT_GT(figures.at(phase).get<double>(), 0) << phase;
    phases_s += figures.at(phase).get<double>();
  }
  EXPECT_LE(phases_s, figures.at("seconds_per_step").get<double>());
  EXPECT_GT(figures.at("GFLOP/step").get<double>(), 0);

  const Json& ops = figures.at("ops");
  ASSERT_EQ(ops.size(), 22U);  // 20, those left, and what is outside of all
  for (std::size_t i = 1; i < 20; ++i) {
    EXPECT_GE(ops[i - 1].at("self_s").get<double>(), ops[i].at("self_s").get<double>());
  }
  EXPECT_THAT(output_, HasSubstr("autograd engine"));
  EXPECT_THAT(output_, HasSubstr("outside of ops"));
}

TEST_F(BenchCli, EvalCountsTheBoxesItWorkedOn) {
  const Json figures =
      bench({"eval", recipe("shapes.yaml"), "--iters", "1", "MODEL.RPN.POST_NMS_TOPK_TEST", "50",
             "TEST.DETECTIONS_PER_IMAGE", "7", "MODEL.ROI_HEADS.SCORE_THRESH_TEST", "0.0"});
  EXPECT_EQ(figures.at("ROIs"), 50);
  EXPECT_EQ(figures.at("mask ROIs"), 0);
  EXPECT_EQ(figures.at("detections"), 7);
}

TEST_F(BenchCli, EvalCountsTheMasksOfAllDetections) {
  const Json figures = bench({"eval", recipe("shapes_mask.yaml"), "--iters", "1",
                              "MODEL.ROI_HEADS.SCORE_THRESH_TEST", "0.0"});
  EXPECT_EQ(figures.at("detections"), 100);
  EXPECT_EQ(figures.at("mask ROIs"), 100);  // the mask head may work on them part by part
}

TEST_F(BenchCli, OpsMeasuresEveryLayerOfTheStepThatTrainRuns) {
  const Json figures = bench({"ops", recipe("shapes.yaml")});
  const Json& layers = figures.at("layers");
  const Json& step = figures.at("recipes").at(0);
  double gflop = 0, own_s = 0;
  for (const Json& layer : step.at("layers")) {
    const Json& figures_of_layer = layers.at(layer.at("layer").get<std::size_t>());
    const char* const passes[] = {"forward", "backward data", "backward weights"};
    for (std::size_t i = 0; i < 3; ++i) {
      const auto runs = layer.at("runs").at(i).get<double>();
      if (runs == 0) {
        continue;
      }
      const Json& pass = figures_of_layer.at(passes[i]);
      gflop += runs * figures_of_layer.at("gflop_per_pass").get<double>();
      own_s += runs * pass.at("own_s").get<double>();
      // Float32 sums of up to 12544 products: far below the relative errors of a wrong kernel.
      EXPECT_LT(pass.at("own_error").get<double>(), 1e-5) << figures_of_layer.at("name");
      EXPECT_LT(pass.at("aten_error").get<double>(), 1e-5) << figures_of_layer.at("name");
      EXPECT_GT(pass.at("aten_s").get<double>(), 0);
    }
  }
  EXPECT_NEAR(step.at("own_s").get<double>(), own_s, 1e-9);
  EXPECT_NEAR(step.at("gflop").get<double>(), gflop, 1e-9);
  const Json train = bench({"train", recipe("shapes.yaml"), "--iters", "1"});
  EXPECT_NEAR(train.at("GFLOP/step").get<double>(), gflop, 1e-9);
}

TEST_F(BenchCli, OpsTakesAFolderAndMeasuresEqualNetworksOnce) {
  const std::string base = "_BASE_: " + recipe("yolov3_shapes.yaml") + "\n";
  files::write_atomic(folder_ / "recipes" / "a.yaml", base + "SOLVER:\n  BASE_LR: 0.001\n");
  files::write_atomic(folder_ / "recipes" / "b.yaml", base + "SOLVER:\n  BASE_LR: 0.002\n");
  files::write_atomic(folder_ / "recipes" / "more" / "c.yaml",
                      base + "MODEL:\n  DARKNET:\n    STAGE_BLOCKS: [1, 1, 1, 1, 1]\n");
  files::write_atomic(folder_ / "recipes" / "Base-x.yaml", "NO_SUCH_KEY: 1\n");
  const Json figures = bench({"ops", "recipes", "--quick"});
  const Json& recipes = figures.at("recipes");
  ASSERT_EQ(recipes.size(), 2U);
  EXPECT_EQ(recipes[0].at("name"), "a");
  EXPECT_EQ(recipes[0].at("same"), Json({"b"}));
  EXPECT_EQ(recipes[1].at("name"), "more/c");
  // c has a's layers, but less often: nothing is measured twice.
  EXPECT_EQ(figures.at("layers").size(), recipes[0].at("layers").size());
  EXPECT_LT(recipes[1].at("gflop").get<double>(), recipes[0].at("gflop").get<double>());
}

TEST_F(BenchCli, OpsExplainsWhatDecidesTheAlgorithmOfEachLayer) {
  const ProgramResult result = run_program(
      test::program_path(),
      {"bench", "ops", recipe("shapes_mask.yaml"), "--size", "64x64", "--batch", "1", "--explain"},
      folder_.path());
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("conv 7x7/2 3->64, 1x64x64"));
  EXPECT_THAT(result.out, HasSubstr("adjoint of a convolution"));
  EXPECT_THAT(result.out, HasSubstr("one channel of each image alone"));
  EXPECT_THAT(result.out, ContainsRegex("linear [^\n]* gemm +gemm +gemm"));
  EXPECT_THAT(result.out, Not(HasSubstr("GFLOP/s")));
}

TEST_F(BenchCli, OpsWithoutRecipesIsAUsageError) {
  const ProgramResult result = run_program(test::program_path(), {"bench", "ops"}, folder_.path());
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("no recipe in configs"));
}

TEST_F(BenchCli, UnknownKernelsAreAUsageErrorThatNamesTheKnownOnes) {
  const ProgramResult result =
      run_program(test::program_path(),
                  {"bench", "ops", recipe("shapes.yaml"), "--size", "64x64", "--batch", "1"},
                  folder_.path(), {"DETFORGE_KERNELS=mkl"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("\"mkl\""));
  EXPECT_THAT(result.err, HasSubstr("aten"));
}

}  // namespace
}  // namespace detforge
