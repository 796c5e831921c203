// The trained Yolo-Fastest 1.1 of ../shared/data/weights: from its .cfg and .weights files to AP.

#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <torch/types.h>

#include "detforge/data/loader.h"
#include "detforge/eval/coco_ground_truth.h"
#include "detforge/eval/inference.h"
#include "detforge/export/load_weights.h"
#include "detforge/models/darknet/darknet_detector.h"
#include "support/test_data.h"
#include "support/torch/tensors.h"

namespace detforge {
namespace {

constexpr const char* kFolder = "weights/yolo_fastest";
constexpr std::int64_t kSide = 320;

std::filesystem::path file(const char* name) {
  return test::test_data_dir() / kFolder / name;
}

DarknetDetector load_detector() {
  DarknetDetector detector({.cfg = read_darknet_cfg(file("yolo-fastest-1.1.cfg"))}, 0);
  const LoadReport report = load_weights(detector, file("yolo-fastest-1.1.weights"));
  EXPECT_TRUE(report.missing.empty() && report.reinitialised.empty()) << report.table();
  detector.eval();
  return detector;
}

/// x[c, y, x] = ((7c + 3y + 5x) mod 256) / 255: the input of the recorded outputs.
Tensor pattern() {
  const auto range = [](std::int64_t n) { return torch::arange(n, torch::kLong); };
  return ((range(3) * 7).view({3, 1, 1}) + (range(kSide) * 3).view({kSide, 1}) + range(kSide) * 5)
      .remainder(256)
      .to(torch::kFloat)
      .div(255)
      .unsqueeze(0);
}

TEST(YoloFastestParity, HeadOutputsEqualTheRecordedOnes) {
  DETFORGE_REQUIRE_TEST_DATA(kFolder);
  DarknetDetector detector = load_detector();
  const torch::NoGradGuard no_grad;
  const std::vector<Tensor> maps = detector.layers()->forward(pattern(), {});
  const std::vector<const char*> names = {"pattern_head_10x10.npy", "pattern_head_20x20.npy"};
  ASSERT_EQ(maps.size(), names.size());
  for (std::size_t i = 0; i < maps.size(); ++i) {
    const Tensor expected = test::to_tensor(test::read_npy(file(names[i])));
    RecordProperty(names[i], std::to_string((maps[i][0] - expected).abs().max().item<double>()));
    // Measured: 3e-5. Required: 2e-3, of values up to 19.
    EXPECT_TRUE(test::expect_close(maps[i][0], expected, {.atol = 2e-4})) << names[i];
  }
}

/// AP and AP50 on coco_sample's val2017.
struct Accuracy {
  double ap = 0, ap50 = 0;
};

Accuracy evaluate(DarknetDetector& detector) {
  const auto data = test::test_data_dir() / "coco_sample";
  const CocoDataset dataset(
      {.files = {{.json = (data / "annotations/instances_val2017.json").string(),
                  .image_root = (data / "val2017").string()}},
       .filter_empty = false});
  const TransformPipeline transforms({.flip = TransformPipeline::Flip::kNone,
                                      .fixed_size = ImageSize{kSide, kSide},
                                      .interpolation = Interpolation::kOpenCv});
  EvalLoader loader(
      dataset, transforms,
      {.batch_size = 4,
       .threads = 0,
       .collate = {.pixel_mean = {0, 0, 0}, .pixel_std = {255, 255, 255}, .rgb = true}});
  const InferenceResult found = run_inference(
      detector, [&] { return loader.next(); }, dataset.category_ids());
  const CocoEvalResult result =
      evaluate_coco(eval_inputs(dataset.store()), found.detections, {.threads = 1});
  return {.ap = result.value("AP").value_or(-1), .ap50 = result.value("AP50").value_or(-1)};
}

TEST(YoloFastestParity, AccuracyOnCocoSampleIsTheRecordedOne) {
  DETFORGE_REQUIRE_TEST_DATA(kFolder);
  DETFORGE_REQUIRE_TEST_DATA("coco_sample");
  DarknetDetector detector = load_detector();
  const Accuracy accuracy = evaluate(detector);
  RecordProperty("AP", std::to_string(accuracy.ap));
  RecordProperty("AP50", std::to_string(accuracy.ap50));
  std::ifstream in(file("expected_coco_sample_val2017.json"));
  const nlohmann::json expected = nlohmann::json::parse(in).at("stats");
  EXPECT_NEAR(accuracy.ap, expected.at("AP").get<double>(), 0.005);
  EXPECT_NEAR(accuracy.ap50, expected.at("AP50").get<double>(), 0.005);
}

}  // namespace
}  // namespace detforge
