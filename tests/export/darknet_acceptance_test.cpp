// The trained Yolo-Fastest 1.1 of ../shared/data/weights: from its .cfg and .weights files to AP.

#include <algorithm>
#include <cmath>
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

CocoDataset coco_sample() {
  const auto data = test::test_data_dir() / "coco_sample";
  return CocoDataset({.files = {{.json = (data / "annotations/instances_val2017.json").string(),
                                 .image_root = (data / "val2017").string()}},
                      .filter_empty = false});
}

/// With the settings of the recorded detections: stretched by OpenCV's bilinear filter, RGB / 255.
std::vector<EvalDetection> detect(const CocoDataset& dataset) {
  DarknetDetector detector = load_detector();
  const TransformPipeline transforms({.flip = TransformPipeline::Flip::kNone,
                                      .fixed_size = ImageSize{kSide, kSide},
                                      .interpolation = Interpolation::kOpenCv});
  EvalLoader loader(
      dataset, transforms,
      {.batch_size = 4,
       .threads = 0,
       .collate = {.pixel_mean = {0, 0, 0}, .pixel_std = {255, 255, 255}, .rgb = true}});
  return run_inference(
             detector, [&] { return loader.next(); }, dataset.category_ids())
      .detections;
}

/// The recorded detections, clipped to their images as ours are.
std::vector<EvalDetection> recorded_detections(const CocoStore& store) {
  std::ifstream in(file("detections_coco_sample_val2017.json"));
  std::vector<EvalDetection> detections;
  for (const nlohmann::json& item : nlohmann::json::parse(in)) {
    const std::int64_t image_id = item.at("image_id");
    const Box box = clipped_box(item.at("bbox"), store.find_image(image_id)->size);
    detections.push_back({.image_id = image_id,
                          .category_id = item.at("category_id"),
                          .x = box.x1,
                          .y = box.y1,
                          .width = box.width(),
                          .height = box.height(),
                          .score = item.at("score")});
  }
  return detections;
}

/// Whether a detection of the same image and class has nearly this score and box.
bool is_found(const EvalDetection& wanted, const std::vector<EvalDetection>& detections) {
  constexpr double kPixels = 0.2, kScore = 5e-4;
  return std::any_of(detections.begin(), detections.end(), [&](const EvalDetection& other) {
    return other.image_id == wanted.image_id && other.category_id == wanted.category_id &&
           std::abs(other.score - wanted.score) < kScore &&
           std::abs(other.x - wanted.x) < kPixels && std::abs(other.y - wanted.y) < kPixels &&
           std::abs(other.width - wanted.width) < kPixels &&
           std::abs(other.height - wanted.height) < kPixels;
  });
}

TEST(YoloFastestParity, DetectionsOnCocoSampleEqualTheRecordedOnes) {
  DETFORGE_REQUIRE_TEST_DATA(kFolder);
  DETFORGE_REQUIRE_TEST_DATA("coco_sample");
  const CocoDataset dataset = coco_sample();
  const std::vector<EvalDetection> found = detect(dataset);
  const std::vector<EvalDetection> recorded = recorded_detections(dataset.store());
  EXPECT_EQ(found.size(), recorded.size());
  const auto missing = std::count_if(recorded.begin(), recorded.end(), [&](const auto& detection) {
    return !is_found(detection, found);
  });
  EXPECT_EQ(missing, 0);
}

// The recorded AP is that of boxes that are not clipped to their image: clipped, they give ours to
// 1e-5.
TEST(YoloFastestParity, AccuracyOnCocoSampleIsTheRecordedOne) {
  DETFORGE_REQUIRE_TEST_DATA(kFolder);
  DETFORGE_REQUIRE_TEST_DATA("coco_sample");
  const CocoDataset dataset = coco_sample();
  const CocoEvalResult result =
      evaluate_coco(eval_inputs(dataset.store()), detect(dataset), {.threads = 1});
  RecordProperty("AP", std::to_string(result.value("AP").value_or(-1)));
  RecordProperty("AP50", std::to_string(result.value("AP50").value_or(-1)));
  std::ifstream in(file("expected_coco_sample_val2017.json"));
  const nlohmann::json expected = nlohmann::json::parse(in).at("stats");
  EXPECT_NEAR(result.value("AP").value_or(-1), expected.at("AP").get<double>(), 0.005);
  EXPECT_NEAR(result.value("AP50").value_or(-1), expected.at("AP50").get<double>(), 0.005);
}

}  // namespace
}  // namespace detforge
