#include "detforge/config/print.h"

#include <filesystem>
#include <gmock/gmock.h>
#include <set>

#include <gtest/gtest.h>

#include "config/config_files.h"
#include "detforge/config/datasets.h"
#include "detforge/config/schema.h"
#include "detforge/config/value.h"

namespace detforge {
namespace {

using test::ConfigFolder;
using test::every_recipe;
using test::fpn_base;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(ConfigSchema, NamesEveryKeyOnceAndDocumentsIt) {
  std::set<std::string> names;
  for (const auto& key : config::schema()) {
    EXPECT_TRUE(names.insert(key.name).second) << key.name;
    EXPECT_FALSE(key.doc.empty()) << key.name;
    EXPECT_NE(key.doc.back(), '.') << key.name;
  }
  EXPECT_GT(names.size(), 150U);
}

TEST(ConfigSchema, EveryDefaultIsAllowed) {
  for (const auto& key : config::schema()) {
    Config config;
    EXPECT_NO_THROW(config::set_value(config, key, YAML::Load(config::format_value({}, key))))
        << key.name;
    EXPECT_EQ(config, Config{}) << key.name;
  }
}

TEST(ToYaml, ReadsBackToAnEqualConfig) {
  const ConfigFolder folder;
  Config config =
      load_config(fpn_base(), {"SOLVER.BASE_LR", "0.1", "SOLVER.GAMMA", "0.30000000000000004",
                               "SOLVER.WEIGHT_DECAY", "1e-300", "SOLVER.WEIGHT_DECAY_BIAS", "0",
                               "LOSS_SCALE_VALUE", "dynamic", "OUTPUT_DIR",
                               "a \"b\" \\ (c), [d] #\t\xC3\xA9", "DATASETS.CLASSES",
                               "[\"1\", \"true\", \"null\"]", "MODEL.ROI_HEADS.NUM_CLASSES", "3"});
  EXPECT_EQ(load_config(folder.write("effective.yaml", to_yaml(config))), config);
}

TEST(ToYaml, ReadsBackForEveryRecipe) {
  const ConfigFolder folder;
  for (const auto& [file, config] : every_recipe()) {
    EXPECT_EQ(load_config(folder.write("effective.yaml", to_yaml(config))), config) << file;
  }
}

TEST(DescribeConfig, GivesDefaultRangeAndMeaning) {
  EXPECT_THAT(describe_config(),
              HasSubstr("MODEL.RPN.NMS_THRESH: 0.7\n"
                        "    a proposal with more IoU than this with a better one is dropped.\n"
                        "    Takes a number from 0 to 1.\n"));
  EXPECT_THAT(describe_config(), HasSubstr("Available today: \"StandardROIHeads\"."));
}

TEST(ConfigDifferences, ListsOldAndNewValues) {
  const Config from = load_config(fpn_base());
  const Config to = load_config(fpn_base(), {"SOLVER.BASE_LR", "0.01", "SEED", "3"});
  EXPECT_THAT(config_differences(from, to),
              ElementsAre("SOLVER.BASE_LR: 0.02 -> 0.01", "SEED: -1 -> 3"));
  EXPECT_TRUE(config_differences(from, from).empty());
}

TEST(ResolveDatasets, FindsDetectron2sNamesBelowTheGivenFolder) {
  Config config = load_config(fpn_base());
  resolve_datasets(config, {.data = "/coco", .detectron2 = "/unused"});
  EXPECT_THAT(config.datasets.train_json,
              ElementsAre("/coco/annotations/instances_train2017.json"));
  EXPECT_THAT(config.datasets.train_images, ElementsAre("/coco/train2017"));
  EXPECT_THAT(config.datasets.test_images, ElementsAre("/coco/val2017"));
}

TEST(ResolveDatasets, FallsBackToDetectron2sFolder) {
  Config config = load_config(fpn_base());
  resolve_datasets(config, {.data = "", .detectron2 = "/sets"});
  EXPECT_THAT(config.datasets.test_json,
              ElementsAre("/sets/coco/annotations/instances_val2017.json"));
}

TEST(ResolveDatasets, PutsRelativePathsBelowTheGivenFolder) {
  Config config = load_config(
      fpn_base(), {"DATASETS.TRAIN_JSON", "[a/train.json]", "DATASETS.TRAIN_IMAGES", "[/abs]"});
  resolve_datasets(config, {.data = "/root", .detectron2 = ""});
  EXPECT_THAT(config.datasets.train_json, ElementsAre("/root/a/train.json"));
  EXPECT_THAT(config.datasets.train_images, ElementsAre("/abs"));
}

TEST(ResolveDatasets, RefusesAnUnknownName) {
  Config config = load_config(fpn_base(), {"DATASETS.TEST", "[voc_2007]"});
  EXPECT_THROW(resolve_datasets(config, {}), Error);
}

}  // namespace
}  // namespace detforge
