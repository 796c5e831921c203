// A letterboxed image from the file through loader, detector and evaluation: known boxes come back.
#include <string>

#include <gtest/gtest.h>
#include <torch/types.h>

#include "data/picture_files.h"
#include "detforge/data/loader.h"
#include "detforge/eval/inference.h"

namespace detforge {
namespace {

/// Finds the bright rectangle of each image by looking at the pixels of the network input.
class BrightnessDetector : public Detector {
 public:
  LossMap losses(const ImageBatch&, const std::vector<Targets>&, const LossCounts*) override {
    return {};
  }

  std::vector<Detections> predict(const ImageBatch& images) override {
    std::vector<Detections> all;
    for (std::int64_t i = 0; i < images.count(); ++i) {
      const Tensor bright = images.images[i][0] > 142;  // between both values
      const Tensor rows = bright.any(1).nonzero(), columns = bright.any(0).nonzero();
      const Tensor box =
          torch::stack({columns.min(), rows.min(), columns.max() + 1, rows.max() + 1})
              .to(torch::kFloat);
      all.push_back({.boxes = box.unsqueeze(0),
                     .scores = torch::ones({1}),
                     .labels = torch::zeros({1}, torch::kLong)});
    }
    return all;
  }
};

TEST(LetterboxEndToEnd, DetectionsComeBackToPixelsOfTheFile) {
  test::DatasetFolder data;
  // 8 pixels of the file are a whole number in every letterbox below.
  data.add_image(1, "wide.png",
                 test::encoded(".png",
                               [] {
                                 cv::Mat pixels(80, 160, CV_8UC3, cv::Scalar::all(30));
                                 pixels(cv::Rect(40, 16, 64, 24)).setTo(cv::Scalar::all(255));
                                 return pixels;
                               }()),
                 80, 160);
  data.add_image(2, "tall.png",
                 test::encoded(".png",
                               [] {
                                 cv::Mat pixels(160, 96, CV_8UC3, cv::Scalar::all(30));
                                 pixels(cv::Rect(8, 48, 40, 80)).setTo(cv::Scalar::all(255));
                                 return pixels;
                               }()),
                 160, 96);
  data.add_box(1, {40, 16, 64, 24});
  data.add_box(2, {8, 48, 40, 80});
  const CocoDataset dataset = data.open();
  for (const std::int64_t side : {160, 320, 80}) {
    const TransformPipeline transforms({.flip = TransformPipeline::Flip::kNone,
                                        .letterbox = Letterbox::Options{.size = {side, side}}});
    EvalLoader loader(dataset, transforms,
                      {.batch_size = 2, .threads = 1, .collate = {.pixel_mean = {0, 0, 0}}});
    BrightnessDetector detector;
    const std::vector<std::optional<std::int64_t>> ids = {1};
    const InferenceResult found = run_inference(
        detector, [&] { return loader.next(); }, ids);
    ASSERT_EQ(found.detections.size(), 2U);
    const EvalDetection &wide = found.detections[0], &tall = found.detections[1];
    EXPECT_EQ(std::vector<double>({wide.x, wide.y, wide.width, wide.height}),
              std::vector<double>({40, 16, 64, 24}))
        << side;
    EXPECT_EQ(std::vector<double>({tall.x, tall.y, tall.width, tall.height}),
              std::vector<double>({8, 48, 40, 80}))
        << side;
  }
}

}  // namespace
}  // namespace detforge
