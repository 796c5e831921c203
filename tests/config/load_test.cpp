#include "detforge/config/load.h"

#include <gmock/gmock.h>

#include <gtest/gtest.h>

#include "config/config_files.h"
#include "support/test_data.h"

namespace detforge {
namespace {

using test::ConfigFolder;
using test::every_recipe;
using test::fpn_base;
using test::load_error;
using test::Recipe;
using testing::HasSubstr;

TEST(LoadConfig, GivesDetectron2sValuesForTheFpnBase) {
  const Config config = load_config(fpn_base());
  EXPECT_EQ(config.model.backbone.name, "build_resnet_fpn_backbone");
  EXPECT_EQ(config.model.anchor_generator.sizes,
            (std::vector<Numbers>{{32}, {64}, {128}, {256}, {512}}));
  EXPECT_EQ(config.model.rpn.pre_nms_topk_train, 2000);
  EXPECT_EQ(config.model.rpn.nms_thresh, 0.7);
  EXPECT_EQ(config.input.min_size_train, (Integers{640, 672, 704, 736, 768, 800}));
  EXPECT_EQ(config.solver.base_lr, 0.02);
  EXPECT_EQ(config.solver.weight_decay_bias, std::nullopt);
}

TEST(LoadConfig, EveryRecipeOfTheRepositoryLoads) {
  int masks = 0, yolos = 0;
  for (const Recipe& recipe : every_recipe()) {
    masks += recipe.config.model.mask_on ? 1 : 0;
    yolos += recipe.config.model.meta_architecture == "YOLOV3" ? 1 : 0;
  }
  EXPECT_GE(masks, 5);
  EXPECT_GE(yolos, 6);
}

TEST(LoadConfig, OfStepsAndEpochsTheOneSaidLastCounts) {
  const ConfigFolder folder;
  const auto recipe = folder.write_recipe(
      "my.yaml",
      "SOLVER: {MAX_ITER: 9, MAX_EPOCHS: 2, STEPS_EPOCHS: [1], CHECKPOINT_PERIOD_EPOCHS: 1}\n"
      "TEST: {EVAL_PERIOD_EPOCHS: 1}\n");
  Config config = load_config(recipe);
  EXPECT_EQ(config.solver.max_epochs, 2);
  EXPECT_TRUE(has_epochs(config));
  config = load_config(recipe, {"SOLVER.MAX_ITER", "7", "SOLVER.STEPS", "[5]",
                                "SOLVER.CHECKPOINT_PERIOD", "3", "TEST.EVAL_PERIOD", "4"});
  EXPECT_FALSE(has_epochs(config));
  EXPECT_EQ(config.solver.max_iter, 7);
  EXPECT_EQ(config.solver.max_epochs, 0);
}

TEST(LoadConfig, ACfgFileForAnotherArchitectureIsRefused) {
  EXPECT_THAT(load_error(fpn_base(), {"MODEL.DARKNET.CFG", "a.cfg"}),
              HasSubstr("only read with MODEL.META_ARCHITECTURE Darknet"));
}

TEST(LoadConfig, ANetworkOfACfgFileHasNoStagesToComputeAgain) {
  const std::string base = (test::source_dir() / "configs" / "Base-Darknet.yaml").string();
  EXPECT_THAT(load_error(base, {"MODEL.DARKNET.CFG", "a.cfg", "MODEL.BACKBONE.CHECKPOINT", "true"}),
              HasSubstr("has no stages"));
}

TEST(LoadConfig, FollowsBaseRelativeToTheFileAndLetsTheChildWin) {
  const ConfigFolder folder;
  folder.write_recipe("parent/base.yaml", "SOLVER:\n  BASE_LR: 0.5\n  MAX_ITER: 7\n");
  const auto child =
      folder.write("child/own.yaml", "_BASE_: ../parent/base.yaml\nSOLVER: {MAX_ITER: 9}\n");
  const Config config = load_config(child);
  EXPECT_EQ(config.solver.base_lr, 0.5);
  EXPECT_EQ(config.solver.max_iter, 9);
}

TEST(LoadConfig, NamesTheFileOfABaseCircle) {
  const ConfigFolder folder;
  folder.write("a.yaml", "_BASE_: b.yaml\n");
  folder.write("b.yaml", "VERSION: 2\n_BASE_: a.yaml\n");
  const auto start = folder.write("a.yaml", "_BASE_: b.yaml\n");
  EXPECT_THAT(load_error(start), HasSubstr("_BASE_ leads back"));
  EXPECT_THAT(load_error(start), HasSubstr("b.yaml:2"));
}

TEST(LoadConfig, NamesTheLineOfAMissingBase) {
  const ConfigFolder folder;
  const auto file = folder.write("a.yaml", "VERSION: 2\n_BASE_: absent.yaml\n");
  EXPECT_THAT(load_error(file), HasSubstr("a.yaml:2"));
  EXPECT_THAT(load_error(file), HasSubstr("absent.yaml"));
}

TEST(LoadConfig, AcceptsPythonTuplesAndYamlLists) {
  const ConfigFolder folder;
  const auto file =
      folder.write_recipe("a.yaml",
                          "INPUT:\n  MIN_SIZE_TRAIN: (800,)\n"
                          "DATASETS:\n  TRAIN: (\"coco_2017_train\", 'coco_2017_val')\n"
                          "SOLVER: {STEPS: \"(210000, 250000)\"}\n"
                          "MODEL:\n  RPN: {CONV_DIMS: [64, -1]}\n"
                          "  ANCHOR_GENERATOR: {SIZES: \"((32,),)\"}\n");
  const Config config = load_config(file);
  EXPECT_EQ(config.input.min_size_train, Integers{800});
  EXPECT_EQ(config.datasets.train, (Strings{"coco_2017_train", "coco_2017_val"}));
  EXPECT_EQ(config.solver.steps, (Integers{210000, 250000}));
  EXPECT_EQ(config.model.rpn.conv_dims, (Integers{64, -1}));
  EXPECT_EQ(config.model.anchor_generator.sizes, std::vector<Numbers>{{32}});
}

TEST(LoadConfig, AcceptsEverySpellingOfANumber) {
  for (const std::string text : {"1e-4", "1.0e-4", ".0001", "0.0001", "\"1e-4\"", "+1e-4"}) {
    EXPECT_EQ(load_config(fpn_base(), {"SOLVER.BASE_LR=" + text}).solver.base_lr, 1e-4) << text;
  }
  EXPECT_EQ(load_config(fpn_base(), {"SOLVER.WEIGHT_DECAY", "0"}).solver.weight_decay, 0.0);
}

TEST(LoadConfig, AppliesOverridesInOrderAndAsKeyEqualsValue) {
  const Config config = load_config(
      fpn_base(), {"SOLVER.MAX_ITER", "1", "SOLVER.MAX_ITER", "2", "OUTPUT_DIR=a=b: #c",
                   "SOLVER.STEPS", "(1,)", "MODEL.WEIGHTS", "", "SOLVER.WEIGHT_DECAY_BIAS", "0.5",
                   "INPUT.MIN_SIZE_TRAIN", "[600, 700]"});
  EXPECT_EQ(config.solver.max_iter, 2);
  EXPECT_EQ(config.output_dir, "a=b: #c");
  EXPECT_EQ(config.solver.steps, Integers{1});
  EXPECT_EQ(config.model.weights, "");
  EXPECT_EQ(config.solver.weight_decay_bias, 0.5);
  EXPECT_EQ(config.input.min_size_train, (Integers{600, 700}));
}

TEST(LoadConfig, ReadsLossScaleAsNumberOrDynamic) {
  EXPECT_TRUE(load_config(fpn_base(), {"LOSS_SCALE_VALUE", "dynamic"}).loss_scale_value.dynamic);
  EXPECT_EQ(load_config(fpn_base(), {"LOSS_SCALE_VALUE", "128"}).loss_scale_value.value, 128);
  EXPECT_THAT(load_error(fpn_base(), {"LOSS_SCALE_VALUE", "auto"}),
              HasSubstr("a number above 0 or \"dynamic\""));
}

TEST(LoadConfig, ReadsNoneForTheBiasDecay) {
  const std::vector<std::string> words = {"SOLVER.WEIGHT_DECAY_BIAS", "0.1",
                                          "SOLVER.WEIGHT_DECAY_BIAS", "None"};
  EXPECT_EQ(load_config(fpn_base(), words).solver.weight_decay_bias, std::nullopt);
}

TEST(LoadConfig, AcceptsAnEmptySection) {
  const ConfigFolder folder;
  EXPECT_NO_THROW(
      load_config(folder.write_recipe("a.yaml", "SOLVER:\n  # BASE_LR: 0.1\nTEST: {}\n")));
}

TEST(ConfigWarnings, NameStepsThatNeverCome) {
  Config config =
      load_config(fpn_base(), {"SOLVER.MAX_ITER", "70000", "MODEL.WEIGHTS", "R-50.pkl"});
  ASSERT_EQ(config_warnings(config).size(), 1U);
  EXPECT_THAT(config_warnings(config)[0], HasSubstr("SOLVER.STEPS 80000"));
}

TEST(ConfigWarnings, NameFrozenPartsThatWouldStayRandom) {
  const auto warnings = config_warnings(load_config(fpn_base()));
  ASSERT_EQ(warnings.size(), 2U);
  EXPECT_THAT(warnings[0], HasSubstr("FrozenBN"));
  EXPECT_THAT(warnings[1], HasSubstr("FREEZE_AT"));
}

}  // namespace
}  // namespace detforge
