// The whole program with masks: train, evaluate, predict, and data that has none.
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "cli/training_cli.h"
#include "detforge/core/files.h"

namespace detforge::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

class MaskTrainingCli : public TrainingCli {
 protected:
  ProgramResult train_masks(const std::string& output, Words more = {}) const {
    const Words tiny{"MODEL.ROI_MASK_HEAD.CONV_DIM",
                     "32",
                     "MODEL.ROI_MASK_HEAD.NUM_CONV",
                     "1",
                     "MODEL.ROI_HEADS.SCORE_THRESH_TEST",
                     "0",  // so that the untrained model finds something
                     "SOLVER.MAX_ITER",
                     "4",
                     "SOLVER.CHECKPOINT_PERIOD",
                     "2"};
    more.insert(more.begin(), tiny.begin(), tiny.end());
    return run(train_words(output, more, "shapes_mask.yaml"));
  }
  json read_json(const fs::path& file) const { return json::parse(files::read(folder_ / file)); }

  /// The annotations of `split` ("train" or "val") without their masks, as boxes_SPLIT.json.
  std::string without_masks(const std::string& split) const {
    json data = read_json("shapes/annotations/instances_" + split + ".json");
    for (json& annotation : data["annotations"]) {
      annotation.erase("segmentation");
    }
    files::write_atomic(folder_ / ("boxes_" + split + ".json"), data.dump());
    return "[boxes_" + split + ".json]";
  }
};

TEST_F(MaskTrainingCli, TrainEvalPredictAndTheMasksTheyWrite) {
  ProgramResult result = train_masks("run");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(files::read(folder_ / "run/metrics.jsonl").find("loss_mask"), std::string::npos);
  const json metrics = read_json("run/eval/iter_4/metrics.json");
  EXPECT_TRUE(metrics.contains("bbox") && metrics.contains("segm")) << metrics;
  EXPECT_TRUE(fs::exists(folder_ / "run/eval/iter_4/per_class_segm.csv"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_ / "run/eval/iter_4/pictures"), {}), 3);
  const json results = read_json("run/eval/iter_4/results.json");
  ASSERT_FALSE(results.empty());
  EXPECT_EQ(results[0]["segmentation"]["size"], json({96, 96}));

  result = run({"eval", "run", "--output", "judged", "--pictures", "1"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find("segm:"), std::string::npos) << result.out;
  EXPECT_EQ(files::read(folder_ / "judged/results.json"),
            files::read(folder_ / "run/eval/iter_4/results.json"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_ / "judged/pictures"), {}), 1);

  result = run({"predict", "run", "shapes/val", "--output", "drawn", "--json", "found.json",
                "--score-threshold", "0"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const json found = read_json("found.json");
  ASSERT_FALSE(found[0]["detections"].empty());
  EXPECT_TRUE(found[0]["detections"][0]["segmentation"]["counts"].is_string());
}

TEST_F(MaskTrainingCli, EvaluatesWithTestTimeAugmentation) {
  ASSERT_EQ(train_masks("run").exit_code, 0);
  const ProgramResult result = run({"eval", "run", "--output", "augmented", "TEST.AUG.ENABLED",
                                    "true", "TEST.AUG.MIN_SIZES", "[64, 96]"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(read_json("augmented/metrics.json").contains("segm"));
  EXPECT_NE(files::read(folder_ / "augmented/results.json"),
            files::read(folder_ / "run/eval/iter_4/results.json"));
}

TEST_F(MaskTrainingCli, RefusesTrainingDataWithoutAnyMask) {
  const ProgramResult result = train_masks("run", {"DATASETS.TRAIN_JSON", without_masks("train")});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.err.find("no object of the training data has a mask"), std::string::npos)
      << result.err;
}

TEST_F(MaskTrainingCli, JudgesBoxesAloneWhereTheTestDataHasNoMasks) {
  const ProgramResult result = train_masks("run", {"DATASETS.TEST_JSON", without_masks("val")});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.err.find("only boxes are judged"), std::string::npos) << result.err;
  EXPECT_FALSE(read_json("run/eval/iter_4/metrics.json").contains("segm"));
  EXPECT_TRUE(fs::exists(folder_ / "run/checkpoints/best.pth"));
}

}  // namespace
}  // namespace detforge::test
