// What the user gets wrong, and the file, line and advice that the message must hold.

#include <gmock/gmock.h>

#include <gtest/gtest.h>

#include "config/config_files.h"

namespace detforge {
namespace {

using test::ConfigFolder;
using test::fpn_base;
using test::load_error;
using testing::AllOf;
using testing::HasSubstr;

/// The message for a recipe whose own lines start in line 2 of "my.yaml".
std::string recipe_error(const std::string& text) {
  const ConfigFolder folder;
  return load_error(folder.write_recipe("my.yaml", text));
}

TEST(ConfigMistakes, MisspeltKeyNamesTheNearest) {
  EXPECT_THAT(recipe_error("SOLVER:\n  MAX_ITER: 5\n  BASE_LRR: 0.1\n"),
              AllOf(HasSubstr("unknown key \"SOLVER.BASE_LRR\""), HasSubstr("my.yaml:4"),
                    HasSubstr("did you mean SOLVER.BASE_LR?")));
}

TEST(ConfigMistakes, RightKeyInTheWrongSectionNamesTheRightOne) {
  EXPECT_THAT(recipe_error("SOLVER:\n  NMS_THRESH: 0.8\n"),
              AllOf(HasSubstr("my.yaml:3"), HasSubstr("did you mean MODEL.RPN.NMS_THRESH?")));
  EXPECT_THAT(recipe_error("BASE_LR: 0.8\n"), HasSubstr("did you mean SOLVER.BASE_LR?"));
  EXPECT_THAT(
      recipe_error("SOLVER:\n  NUM_CONV: 1\n"),
      AllOf(HasSubstr("MODEL.ROI_BOX_HEAD.NUM_CONV"), HasSubstr("MODEL.ROI_MASK_HEAD.NUM_CONV")));
}

TEST(ConfigMistakes, MisspeltSectionNamesTheNearest) {
  EXPECT_THAT(recipe_error("SLOVER:\n  BASE_LR: 0.1\n"),
              AllOf(HasSubstr("my.yaml:3"), HasSubstr("did you mean SOLVER.BASE_LR?")));
  EXPECT_THAT(recipe_error("SLOVER: {}\n"), HasSubstr("unknown section SLOVER"));
}

TEST(ConfigMistakes, LowerCaseKeyNamesTheUpperCaseOne) {
  EXPECT_THAT(load_error(fpn_base(), {"solver.base_lr=1"}),
              HasSubstr("did you mean SOLVER.BASE_LR?"));
}

TEST(ConfigMistakes, NonsenseGetsNoFarFetchedAdvice) {
  EXPECT_THAT(recipe_error("FROBNICATE_QUICKLY: 1\n"), HasSubstr("--describe"));
}

TEST(ConfigMistakes, SpacesAroundAKeyAreNotForgiven) {
  EXPECT_THAT(load_error(fpn_base(), {"SOLVER.MOMENTUM ", "0.9"}),
              AllOf(HasSubstr("unknown key \"SOLVER.MOMENTUM \""),
                    HasSubstr("did you mean SOLVER.MOMENTUM?"), HasSubstr("command line")));
  EXPECT_THAT(load_error(fpn_base(), {"SOLVER.MOMENTUM =0.9"}),
              HasSubstr("did you mean SOLVER.MOMENTUM?"));
}

TEST(ConfigMistakes, DuplicateKeyNamesBothLines) {
  EXPECT_THAT(recipe_error("SEED: 1\nSOLVER:\n  BASE_LR: 1\n  MAX_ITER: 3\n  BASE_LR: 2\n"),
              AllOf(HasSubstr("duplicate key SOLVER.BASE_LR"), HasSubstr("my.yaml:6"),
                    HasSubstr("line 4")));
  EXPECT_THAT(recipe_error("SOLVER: {BASE_LR: 1}\nSEED: 1\nSOLVER: {MAX_ITER: 3}\n"),
              AllOf(HasSubstr("duplicate key SOLVER"), HasSubstr("my.yaml:4")));
}

TEST(ConfigMistakes, WrongTypesAreRefused) {
  const std::pair<const char*, const char*> cases[] = {
      {"SOLVER.MAX_ITER=1e4", "an integer"},
      {"SOLVER.MAX_ITER=100.0", "an integer"},
      {"SOLVER.MAX_ITER=true", "an integer"},
      {"SOLVER.MAX_ITER=99999999999999999999", "an integer"},
      {"SOLVER.BASE_LR=fast", "a number"},
      {"SOLVER.BASE_LR=nan", "a number"},
      {"SOLVER.BASE_LR=inf", "a number"},
      {"SOLVER.BASE_LR=[0.1]", "a number"},
      {"SOLVER.BASE_LR=0.1x", "a number"},
      {"SOLVER.NESTEROV=1", "true or false"},
      {"SOLVER.STEPS=60000", "a list of integers"},
      {"SOLVER.STEPS=[1.5]", "a list of integers"},
      {"SOLVER.STEPS=(1, 2", "brackets"},
      {"OUTPUT_DIR=true", "a text"},
      {"DATASETS.CLASSES=Car", "a list of texts"},
      {"MODEL.ANCHOR_GENERATOR.SIZES=[32]", "a list of at least 1 lists of numbers"},
  };
  for (const auto& [word, expected] : cases) {
    EXPECT_THAT(load_error(fpn_base(), {word}), HasSubstr(expected)) << word;
  }
}

TEST(ConfigMistakes, ABareStringForAListShowsTheList) {
  EXPECT_THAT(recipe_error("DATASETS:\n  CLASSES: Car\n"),
              AllOf(HasSubstr("DATASETS.CLASSES must be a list of texts, not \"Car\""),
                    HasSubstr("[\"Car\"]"), HasSubstr("my.yaml:3")));
}

TEST(ConfigMistakes, ImpossibleValuesNameTheRange) {
  EXPECT_THAT(recipe_error("MODEL:\n  RPN:\n    NMS_THRESH: 1.5\n"),
              AllOf(HasSubstr("MODEL.RPN.NMS_THRESH must be a number from 0 to 1, not \"1.5\""),
                    HasSubstr("my.yaml:4"), HasSubstr("default: 0.7")));
  EXPECT_THAT(load_error(fpn_base(), {"SOLVER.IMS_PER_BATCH", "0"}),
              HasSubstr("an integer of at least 1"));
  EXPECT_THAT(load_error(fpn_base(), {"SOLVER.BASE_LR", "0"}), HasSubstr("a number above 0"));
  EXPECT_THAT(load_error(fpn_base(), {"MODEL.RESNETS.DEPTH", "51"}),
              HasSubstr("one of 18, 34, 50, 101, 152"));
  EXPECT_THAT(load_error(fpn_base(), {"INPUT.FORMAT", "RBG"}),
              HasSubstr("one of \"BGR\", \"RGB\""));
  EXPECT_THAT(load_error(fpn_base(), {"MODEL.PIXEL_STD", "[1, 1]"}),
              HasSubstr("a list of 3 numbers above 0"));
  EXPECT_THAT(recipe_error("SOLVER:\n  BASE_LR:\n"), HasSubstr("not nothing"));
}

TEST(ConfigMistakes, ValuesThatDoNotFitEachOtherAreRefused) {
  const std::vector<std::pair<std::vector<std::string>, const char*>> cases = {
      {{"MODEL.RPN.IOU_LABELS", "[0, 1]"}, "MODEL.RPN.IOU_LABELS has 2 values"},
      {{"MODEL.RPN.IOU_THRESHOLDS", "[0.7, 0.3]"}, "must increase"},
      {{"SOLVER.STEPS", "[5, 5]"}, "SOLVER.STEPS must increase"},
      {{"MODEL.ANCHOR_GENERATOR.SIZES", "[[1], [2]]"}, "2 lists for 5 feature maps"},
      {{"MODEL.RESNETS.DEPTH", "18"}, "RES2_OUT_CHANNELS 64"},
      {{"MODEL.RESNETS.OUT_FEATURES", "[res4]"}, "MODEL.RESNETS.OUT_FEATURES lacks"},
      {{"MODEL.FPN.NORM", "GN", "MODEL.FPN.OUT_CHANNELS", "100"}, "32 groups"},
      {{"MODEL.MASK_ON", "true", "MODEL.ROI_MASK_HEAD.NORM", "GN", "MODEL.ROI_MASK_HEAD.CONV_DIM",
        "100"},
       "32 groups"},
      {{"MODEL.MASK_ON", "true", "MODEL.ROI_MASK_HEAD.NORM", "SyncBN", "DETERMINISTIC", "true"},
       "statistics of several images"},
      {{"DETERMINISTIC", "true", "SOLVER.GRAD_COMPRESSION", "fp16"}, "does not go with"},
      {{"DETERMINISTIC", "true", "SOLVER.ACCUMULATION_STEPS", "2"}, "image by image already"},
      {{"DETERMINISTIC", "true", "AMP", "1", "OPT_LEVEL", "O2"}, "needs gradients in f32"},
      {{"MODEL.ROI_BOX_HEAD.NUM_FC", "0"}, "no layers"},
      {{"DATASETS.CLASSES", "[a, b]"}, "NUM_CLASSES is 80"},
      {{"DATASETS.CLASSES", "[a, a]", "MODEL.ROI_HEADS.NUM_CLASSES", "2"}, "names a class twice"},
      {{"DATASETS.TRAIN_JSON", "[a.json]"}, "0 folders"},
      {{"INPUT.MIN_SIZE_TRAIN_SAMPLING", "range"}, "two values"},
      {{"INPUT.CROP.TYPE", "absolute"}, "whole pixels"},
      {{"INPUT.CROP.SIZE", "[2, 2]"}, "at most 1"},
      {{"INPUT.CROP.TYPE", "absolute_range", "INPUT.CROP.SIZE", "[9, 8]"}, "the first is larger"},
  };
  for (const auto& [words, expected] : cases) {
    EXPECT_THAT(load_error(fpn_base(), words),
                AllOf(HasSubstr(expected), HasSubstr("command line")))
        << words[0];
  }
}

TEST(ConfigMistakes, ValuesThatDoNotFitAYoloAreRefused) {
  const std::string base = (test::source_dir() / "configs" / "Base-YOLOv3.yaml").string();
  const std::vector<std::pair<std::vector<std::string>, const char*>> cases = {
      {{"MODEL.MASK_ON", "true"}, "predicts no masks"},
      {{"MODEL.META_ARCHITECTURE", "Darknet"}, "MODEL.DARKNET.CFG names none"},
      {{"MODEL.DARKNET.CFG", "a.cfg"}, "only read with MODEL.META_ARCHITECTURE Darknet"},
      {{"MODEL.DARKNET.STAGE_BLOCKS", "[1, 2]"}, "5 integers"},
      {{"MODEL.YOLO.ANCHORS", "[[1, 2], [3, 4], [5, 6, 7]]"}, "has 3 numbers"},
      {{"MODEL.YOLO.ANCHORS", "[[1, 2, 3], [1, 2, 3], [1, 2, 3], [1, 2, 3]]"}, "has 4 lists"},
      {{"MODEL.YOLO.NEGATIVE_IOU_THRESH", "0.6"}, "above POSITIVE_IOU_THRESH"},
      {{"DATASETS.CLASSES", "[a, b]"}, "MODEL.YOLO.NUM_CLASSES is 80"},
      {{"INPUT.MULTI_SCALE.ENABLED", "true"}, "INPUT.RESIZE_TRAIN range does not have"},
      {{"INPUT.LARGE_SCALE_JITTER.ENABLED", "true"}, "cannot be joined"},
      {{"INPUT.RANGE_LOW", "[700, 700]"}, "above INPUT.RANGE_HIGH"},
      {{"INPUT.EXPAND.RATIO", "[3, 2]"}, "the first is larger"},
      {{"SOLVER.ACCUMULATION_STEPS", "65"}, "more than the 64 images"},
      {{"SOLVER.STEPS_EPOCHS", "[9, 8]"}, "must increase"},
      {{"DETERMINISTIC", "true"}, "statistics of several images"},
      {{"MODEL_EMA.DECAY", "1"}, "for ever"},
      {{"INPUT.SIZE_TEST", "[416]"}, "not one number"},
  };
  for (const auto& [words, expected] : cases) {
    EXPECT_THAT(load_error(base, words), AllOf(HasSubstr(expected), HasSubstr("command line")))
        << words[0];
  }
}

TEST(ConfigMistakes, FeaturesOfLaterAreRefusedByName) {
  const std::pair<const char*, const char*> cases[] = {
      {"MODEL.KEYPOINT_ON", "true"},
      {"MODEL.LOAD_PROPOSALS", "true"},
      {"MODEL.DEVICE", "npu:1"},
      {"INPUT.FIX_SHAPE", "(1344, 1344)"},
      {"TEST.PRECISE_BN.ENABLED", "true"},
      {"MODEL.ROI_BOX_HEAD.USE_FED_LOSS", "true"},
      {"MODEL.RESNETS.DEFORM_ON_PER_STAGE", "[false, true, true, true]"},
  };
  for (const auto& [key, value] : cases) {
    EXPECT_THAT(load_error(fpn_base(), {key, value}),
                AllOf(HasSubstr(key), HasSubstr("not available yet")))
        << key;
  }
}

TEST(ConfigMistakes, ADefaultThatIsNotBuiltIsNamed) {
  EXPECT_THAT(load_error(""),
              AllOf(HasSubstr("MODEL.BACKBONE.NAME"), HasSubstr("build_resnet_fpn_backbone")));
}

TEST(ConfigMistakes, KeysOfOtherModelsAreNamedAsSuch) {
  EXPECT_THAT(recipe_error("MODEL:\n  RETINANET:\n    NUM_CLASSES: 3\n"),
              HasSubstr("does not build"));
}

TEST(ConfigMistakes, BrokenYamlNamesTheLine) {
  EXPECT_THAT(recipe_error("SOLVER:\n  BASE_LR: [1, 2\nSEED: 1\n"),
              AllOf(HasSubstr("not valid YAML"), HasSubstr("my.yaml:")));
  EXPECT_THAT(recipe_error("- 1\n"), HasSubstr("my.yaml:"));
}

TEST(ConfigMistakes, ASectionWithAValueIsNamed) {
  EXPECT_THAT(recipe_error("SOLVER: 5\n"),
              AllOf(HasSubstr("SOLVER is a section"), HasSubstr("my.yaml:2")));
}

TEST(ConfigMistakes, AMissingFileIsNamed) {
  EXPECT_THAT(load_error("absent.yaml"), HasSubstr("absent.yaml"));
}

TEST(ConfigMistakes, AnOverrideWithoutValueIsNamed) {
  EXPECT_THAT(load_error(fpn_base(), {"SEED", "1", "SOLVER.BASE_LR"}),
              HasSubstr("no value for SOLVER.BASE_LR"));
}

}  // namespace
}  // namespace detforge
