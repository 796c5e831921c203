// A picture of each augmentation, to be looked at: set DETFORGE_PICTURES to a folder to keep them.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "detforge/data/dataset.h"
#include "detforge/data/image_io.h"
#include "detforge/data/image_write.h"
#include "detforge/data/transform_pipeline.h"
#include "detforge/vis/draw.h"
#include "detforge/vis/grid.h"
#include "support/test_data.h"

namespace detforge {
namespace {

using Options = TransformPipeline::Options;

/// Photographs with their objects, where they are on this machine.
std::vector<Sample> photographs(std::vector<std::string>& class_names) {
  const std::filesystem::path folder = test::test_data_dir() / "coco_sample";
  std::vector<Sample> samples;
  if (!std::filesystem::exists(folder)) {
    return samples;
  }
  const CocoDataset dataset({.files = {{(folder / "annotations/instances_val2017.json").string(),
                                        (folder / "val2017").string()}},
                             .keep_segmentation = true});
  class_names = dataset.class_names();
  for (std::int64_t i = 0; i < 6; ++i) {
    samples.push_back(dataset.get(7 * i));
  }
  return samples;
}

/// The pictures of the DatasetMapper case.
std::vector<Sample> golden_pictures() {
  const auto cases = test::parity_cases([](const nlohmann::json& description) {
    return description.contains("items") && description["files"].contains("mapped.npz");
  });
  std::vector<Sample> samples;
  for (const auto& item : cases.at(0).description["items"]) {
    Sample sample;
    sample.path = (cases[0].folder / item.at("file").get<std::string>()).string();
    sample.image = read_image(sample.path);
    sample.original_size = sample.image.size();
    sample.image_id = std::ssize(samples);
    for (const auto& annotation : item.at("annotations")) {
      const auto xywh = annotation.at("bbox").get<std::vector<double>>();
      Instance& object = sample.instances.emplace_back();
      object.box = {xywh[0], xywh[1], xywh[0] + xywh[2], xywh[1] + xywh[3]};
      object.label = annotation.at("category_id");
      object.is_crowd = annotation.at("iscrowd") != 0;
      if (annotation.at("segmentation").is_array()) {
        object.segmentation.polygons = annotation.at("segmentation");
      }
    }
    samples.push_back(std::move(sample));
  }
  return samples;
}

class TransformPictures : public testing::Test {
 protected:
  /// Writes a sheet of six transformed pictures with their objects, reads it back and looks whether
  /// there is anything on it.
  void expect_picture(const std::string& name, const Options& options) {
    const TransformPipeline pipeline(options);
    std::vector<std::string> class_names;
    std::vector<Sample> samples = photographs(class_names);
    if (samples.empty()) {
      samples = golden_pictures();
    }
    std::vector<Image> pictures;
    std::size_t objects = 0;
    for (std::uint64_t i = 0; i < 6; ++i) {
      Sample sample = samples[i % samples.size()];
      Rng rng(5, RngPurpose::kAugment, i);
      pipeline.apply(sample, rng,
                     [&](Rng& numbers) { return samples[numbers.below(samples.size())]; },
                     {.seed = 2, .batch = static_cast<std::int64_t>(10 * i)});
      objects += sample.instances.size();
      pictures.push_back(
          draw_ground_truth(sample.image, sample.instances, class_names, {.least_short_edge = 0}));
    }
    EXPECT_GT(objects, 6U);
    const Image sheet = grid(pictures, {.columns = 3});
    const std::filesystem::path path = folder() / (name + ".png");
    write_png(path, sheet);
    const Image again = read_image(path.string());
    EXPECT_EQ(again.size(), sheet.size());
    EXPECT_GE(sheet.height, 2 * pictures[0].height);
    EXPECT_GE(sheet.width, 3 * pictures[0].width);
    const auto [least, most] = std::minmax_element(again.bgr.begin(), again.bgr.end());
    EXPECT_GT(*most - *least, 100);  // not plain
    EXPECT_EQ(again.bgr, sheet.bgr);
  }

 private:
  std::filesystem::path folder() const {
    const char* kept = std::getenv("DETFORGE_PICTURES");
    return kept != nullptr ? std::filesystem::path(kept) : temporary_.path();
  }
  test::TemporaryFolder temporary_;
};

TEST_F(TransformPictures, PhotometricDistortion) {
  expect_picture("photometric_distortion",
                 {.photometric_distortion = PhotometricDistortion::Options{}});
}

TEST_F(TransformPictures, Expand) {
  expect_picture("expand", {.min_sizes = {0}, .expand = Expand::Options{.probability = 1}});
}

TEST_F(TransformPictures, MinIouCrop) {
  expect_picture("min_iou_crop",
                 {.min_sizes = {0}, .min_iou_crop = MinIouRandomCrop::Options{.min_ious = {}}});
}

TEST_F(TransformPictures, ResizeRange) {
  expect_picture("resize_range",
                 {.resize_range = ResizeRange::Options{.low = {100, 100}, .high = {400, 400}},
                  .interpolation = Interpolation::kOpenCv});
}

TEST_F(TransformPictures, FixedSize) {
  expect_picture("fixed_size", {.fixed_size = ImageSize{300, 300}});
}

TEST_F(TransformPictures, Letterbox) {
  expect_picture("letterbox", {.letterbox = Letterbox::Options{.size = {320, 320}}});
}

TEST_F(TransformPictures, DarknetJitter) {
  expect_picture("darknet_jitter", {.darknet_jitter = DarknetJitter::Options{.size = {320, 320}}});
}

TEST_F(TransformPictures, MultiScale) {
  expect_picture("multi_scale", {.letterbox = Letterbox::Options{},
                                 .multi_scale = MultiScaleOptions{.sizes = {160, 320, 480}}});
}

TEST_F(TransformPictures, Mosaic) {
  expect_picture("mosaic",
                 {.mosaic = MosaicOptions{}, .letterbox = Letterbox::Options{.size = {400, 400}}});
}

TEST_F(TransformPictures, Mixup) {
  expect_picture("mixup",
                 {.letterbox = Letterbox::Options{.size = {320, 320}}, .mixup = MixupOptions{}});
}

TEST_F(TransformPictures, YoloV3Recipe) {
  expect_picture("yolov3_recipe",
                 {.photometric_distortion = PhotometricDistortion::Options{},
                  .expand = Expand::Options{},
                  .min_iou_crop = MinIouRandomCrop::Options{},
                  .resize_range = ResizeRange::Options{.low = {320, 320}, .high = {608, 608}},
                  .interpolation = Interpolation::kOpenCv});
}

}  // namespace
}  // namespace detforge
