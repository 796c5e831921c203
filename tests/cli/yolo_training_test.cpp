// The whole program with YOLOv3 and with the network of a Darknet .cfg file.
#include <gmock/gmock.h>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "cli/training_cli.h"
#include "detforge/core/files.h"

namespace detforge::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class YoloTrainingCli : public TrainingCli {
 protected:
  /// Trains a tiny YOLOv3 with everything that the recipes may switch on.
  Words yolo_words(const std::string& output, Words more = {}) const {
    const Words tiny{"MODEL.DARKNET.STEM_OUT_CHANNELS",
                     "2",
                     "MODEL.DARKNET.STAGE_BLOCKS",
                     "[1, 1, 1, 1, 1]",
                     "MODEL.YOLO.NECK_CHANNELS",
                     "[16, 8, 4]",
                     "MODEL.YOLO.HEAD_CHANNELS",
                     "[16, 8, 4]",
                     "MODEL.YOLO.SCORE_THRESH_TEST",
                     "0",  // so that the untrained model finds something
                     "MODEL.YOLO.CONF_THRESH_TEST",
                     "0",
                     "INPUT.RESIZE_TRAIN",
                     "letterbox",
                     "INPUT.RESIZE_TEST",
                     "letterbox",
                     "INPUT.SIZE_TEST",
                     "[64, 96]",
                     "INPUT.MULTI_SCALE.ENABLED",
                     "true",
                     "INPUT.MULTI_SCALE.SIZES",
                     "[64, 96]",
                     "INPUT.MULTI_SCALE.EVERY_BATCHES",
                     "2",
                     "INPUT.MOSAIC.ENABLED",
                     "true",
                     "INPUT.MIXUP.ENABLED",
                     "true",
                     "INPUT.PHOTOMETRIC_DISTORTION.ENABLED",
                     "true",
                     "SOLVER.ACCUMULATION_STEPS",
                     "2",
                     "MODEL_EMA.ENABLED",
                     "true"};
    more.insert(more.begin(), tiny.begin(), tiny.end());
    return train_words(output, more, "yolov3_shapes.yaml");
  }
};

TEST_F(YoloTrainingCli, TrainsByEpochsAndEvaluatesTheAveragedWeights) {
  ProgramResult result = run(yolo_words("run", {"SOLVER.MAX_EPOCHS", "1", "SOLVER.IMS_PER_BATCH",
                                                "4", "SOLVER.REFERENCE_IMS_PER_BATCH", "8"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("an epoch is 3 steps"));  // 12 images, 4 a step
  const std::string config = files::read(folder_ / "run/config.yaml");
  EXPECT_THAT(config, HasSubstr("MAX_ITER: 3\n"));
  EXPECT_THAT(config, HasSubstr("MAX_EPOCHS: 0"));
  EXPECT_THAT(config, HasSubstr("BASE_LR: 0.001\n"));  // the recipe's 0.002 is for 8 images now
  const std::string found = files::read(folder_ / "run/eval/iter_3/results.json");
  EXPECT_THAT(found, HasSubstr("score"));

  // The run folder alone gives the same detections: best.pth holds what was judged.
  result = run({"eval", "run", "--output", "judged"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("averaged over steps"));
  EXPECT_EQ(files::read(folder_ / "judged/results.json"), found);
  result = run({"predict", "run", "shapes/val", "--output", "drawn"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_ / "drawn"), {}), 3);
}

TEST_F(YoloTrainingCli, ResumedRunEqualsUninterruptedRunByteForByte) {
  const Words length{"SOLVER.MAX_ITER", "8", "SOLVER.CHECKPOINT_PERIOD", "4"};
  const ProgramResult straight = run(yolo_words("straight", length));
  ASSERT_EQ(straight.exit_code, 0) << straight.err;
  const pid_t child = start(yolo_words("broken", length));
  wait_until(child, [&] { return fs::exists(checkpoint("broken")); });
  kill_hard(child);
  const ProgramResult resumed = run({"train", "--resume", "broken"});
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_EQ(tensor_bytes(checkpoint("straight")) == tensor_bytes(checkpoint("broken")), true);
}

TEST_F(YoloTrainingCli, RefusesAClassCountThatTheDataHasNot) {
  const ProgramResult result = run(yolo_words("run", {"MODEL.YOLO.NUM_CLASSES", "3"}));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("MODEL.YOLO.NUM_CLASSES is 3"));
}

/// A network of 4 classes and one anchor at stride 8.
constexpr const char* kCfg = R"([net]
width=64
height=64
channels=3
[convolutional]
batch_normalize=1
filters=4
size=3
stride=4
pad=1
activation=leaky
[maxpool]
size=2
stride=2
[convolutional]
filters=9
size=1
stride=1
pad=1
activation=linear
[yolo]
mask=0
anchors=30,30
classes=4
num=1
)";

class DarknetCli : public TrainingCli {
 protected:
  Words darknet_words(const std::string& output, Words more = {}) const {
    files::write_atomic(folder_ / "tiny.cfg", kCfg);
    const Words tiny{"MODEL.DARKNET.CFG",      "tiny.cfg", "SOLVER.MAX_ITER",          "3",
                     "SOLVER.WARMUP_ITERS",    "1",        "SOLVER.CHECKPOINT_PERIOD", "1",
                     "DATALOADER.NUM_WORKERS", "1"};
    more.insert(more.begin(), tiny.begin(), tiny.end());
    return train_words(output, more, "Base-Darknet.yaml");
  }
};

TEST_F(DarknetCli, TheRunFolderKeepsTheCfgAndMayBeMoved) {
  ProgramResult result = run(darknet_words("run"));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  fs::rename(folder_ / "run", folder_ / "moved");
  fs::remove(folder_ / "tiny.cfg");
  result = run({"eval", "moved", "--output", "judged"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  result = run({"predict", "moved/checkpoints/last.pth", "shapes/val", "--output", "drawn"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  result = run({"convert", "weights", "moved/checkpoints/last.pth", "my.weights"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  // Version 0.2.5 with 8 bytes of images seen; 4 x 3 x 3 x 3 + 4 x 4, 9 x 4 + 9 numbers.
  EXPECT_EQ(fs::file_size(folder_ / "my.weights"), 12 + 8 + 4 * (108 + 16 + 36 + 9));
  result = run({"eval", "moved", "--weights", "my.weights", "--output", "again"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(files::read(folder_ / "again/results.json"),
            files::read(folder_ / "judged/results.json"));
}

TEST_F(DarknetCli, AMovedRunGoesOn) {
  ASSERT_EQ(run(darknet_words("run")).exit_code, 0);
  fs::rename(folder_ / "run", folder_ / "moved");
  fs::remove(folder_ / "tiny.cfg");
  const ProgramResult result = run({"train", "--resume", "moved", "SOLVER.MAX_ITER", "5"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(fs::exists(folder_ / "moved/checkpoints/iter_5.pth"));
}

TEST_F(DarknetCli, ClassesOfWeightsWithoutNamesMustBeAsManyAsTheData) {
  ASSERT_EQ(run(darknet_words("run")).exit_code, 0);
  ASSERT_EQ(run({"convert", "weights", "run/checkpoints/last.pth", "my.weights"}).exit_code, 0);
  const ProgramResult result = run({"eval", "run", "--weights", "my.weights", "--output", "judged",
                                    "DATASETS.CLASSES", "[disc, box]"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("the network has 4 classes, but the data has 2 (disc, box)"));
}

TEST_F(DarknetCli, MistakesInTheCfgNameFileLayerAndLine) {
  std::string text = kCfg;
  text.replace(text.find("filters=9"), 9, "filters=8");
  const Words words = darknet_words("run");
  files::write_atomic(folder_ / "tiny.cfg", text);
  const ProgramResult result = run(words);
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_THAT(result.err,
              testing::AllOf(HasSubstr("tiny.cfg"), HasSubstr("line 21"), HasSubstr("[yolo]")));
}

TEST_F(DarknetCli, ConvertTellsWhereAFileEnds) {
  files::write_atomic(folder_ / "tiny.cfg", kCfg);
  // Version 0.2.5, 8 bytes of images seen, the first convolution's 4 x 3 x 3 x 3 + 4 x 4 numbers.
  const std::string header{"\0\0\0\0\2\0\0\0\5\0\0\0", 12};
  files::write_atomic(folder_ / "cut.weights", header + std::string(8 + 4 * (108 + 16), '\0'));
  const ProgramResult result =
      run({"convert", "weights", "cut.weights", "cut.pth", "--cfg", "tiny.cfg"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("1 of 2 convolutions (the file ends there), 124 numbers"));
}

/// The real model: detections of COCO's images as other programs find them.
TEST(DarknetEvalCli, YoloFastestReachesItsRecordedAp) {
  DETFORGE_REQUIRE_PROGRAM();
  DETFORGE_REQUIRE_TEST_DATA("weights/yolo_fastest");
  const fs::path data = test_data_dir() / "weights" / "yolo_fastest";
  const fs::path sample = test_data_dir() / "coco_sample";
  const TemporaryFolder folder;
  const ProgramResult result = run_program(
      program_path(),
      {"eval", (source_dir() / "configs/Base-Darknet.yaml").string(), "--weights",
       (data / "yolo-fastest-1.1.weights").string(), "--output", "judged", "MODEL.DARKNET.CFG",
       (data / "yolo-fastest-1.1.cfg").string(), "DATASETS.TEST_JSON",
       "[" + (sample / "annotations/instances_val2017.json").string() + "]", "DATASETS.TEST_IMAGES",
       "[" + (sample / "val2017").string() + "]"},
      folder.path());
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto metrics = nlohmann::json::parse(files::read(folder / "judged/metrics.json"));
  EXPECT_NEAR(metrics["AP"].get<double>(), 0.131, 0.005);
  EXPECT_NEAR(metrics["AP50"].get<double>(), 0.297, 0.005);
}

}  // namespace
}  // namespace detforge::test
