// ../shared/FIELD_REPORTS.md, rows about masks: from the file through every transform.
#include <memory>

#include <gtest/gtest.h>

#include "data/picture_files.h"
#include "data/sample_masks.h"
#include "detforge/data/dataset.h"
#include "detforge/data/large_scale_jitter.h"
#include "detforge/data/transform_pipeline.h"

namespace detforge {
namespace {

using test::DatasetFolder;
using test::encoded;
using test::error_of;
using test::Json;
using test::picture;

CocoDataset with_masks(DatasetFolder& data) {
  CocoDatasetOptions options = data.options();
  options.keep_segmentation = true;
  return CocoDataset(options);
}

Json compressed(const Rle& rle) {
  return {{"size", {rle.size.height, rle.size.width}}, {"counts", encode_rle_counts(rle.counts)}};
}

std::vector<std::unique_ptr<Transform>> every_transform() {
  std::vector<std::unique_ptr<Transform>> all;
  all.push_back(std::make_unique<ResizeShortestEdge>(
      ResizeShortestEdge::Options{.short_edges = {47}, .max_size = 200}));
  all.push_back(std::make_unique<RandomFlip>(RandomFlip::Direction::kHorizontal, 1.0));
  all.push_back(std::make_unique<RandomFlip>(RandomFlip::Direction::kVertical, 1.0));
  all.push_back(std::make_unique<RandomCrop>(
      RandomCrop::Options{.type = RandomCrop::Type::kRelative, .size = {0.8, 0.7}}));
  all.push_back(
      std::make_unique<ResizeScale>(ResizeScale::Options{.min_scale = 0.7, .target = {90, 110}}));
  all.push_back(std::make_unique<FixedSizeCrop>(FixedSizeCrop::Options{.size = {64, 64}}));
  return all;
}

TEST(FieldReportF09, OneMaskInThreeNotationsGivesOneBitmapAfterEveryTransform) {
  const ImageSize size{60, 80};
  DatasetFolder data;
  data.add_image(1, "a.png", encoded(".png", picture(60, 80)), 60, 80);
  const std::vector<double> xy = test::rectangle({10, 20, 50, 44});
  const Rle rle = polygon_mask(xy, size);
  for (const Json& notation :
       {Json{xy}, Json{{"size", {60, 80}}, {"counts", rle.counts}}, compressed(rle)}) {
    data.add_box(1, {10, 20, 40, 24});
    data.json["annotations"].back()["segmentation"] = notation;
  }
  const Sample loaded = with_masks(data).get(0);
  ASSERT_EQ(loaded.instances.size(), 3U);
  for (std::size_t k = 0; k < 3; ++k) {
    EXPECT_EQ(test::mask_of(loaded, k), rle);
    EXPECT_FALSE(loaded.instances[k].is_crowd);
  }
  const auto transforms = every_transform();
  for (std::size_t i = 0; i < transforms.size(); ++i) {
    Sample sample = loaded;
    Rng rng(3, RngPurpose::kTest, i);
    transforms[i]->apply(sample, rng);
    EXPECT_EQ(test::mask_of(sample, 1), test::mask_of(sample, 2)) << i;
    // A polygon is drawn at the new size, a bitmap resampled: they may differ along the outline.
    const auto drawn = test::mask_of(sample, 0), moved = test::mask_of(sample, 1);
    const Rle common = merge_masks(std::vector<RleView>{drawn, moved}, true);
    const Rle both = merge_masks(std::vector<RleView>{drawn, moved});
    EXPECT_LE(rle_area(both.counts) - rle_area(common.counts), 140) << i;
    EXPECT_GT(rle_area(common.counts), 300) << i;
  }
}

TEST(FieldReportF09, HolesAndPartsOfTheFileReachTheSample) {
  DatasetFolder data;
  data.add_image(1, "a.png", encoded(".png", picture(3, 5)), 3, 5);
  data.add_box(1, {1, 0, 3, 3});  // a ring: 000 111 101 111 000
  data.json["annotations"].back()["segmentation"] = {{"size", {3, 5}}, {"counts", {3, 4, 1, 4, 3}}};
  data.add_box(1, {0, 0, 5, 3});  // two parts
  data.json["annotations"].back()["segmentation"] = {test::rectangle({0, 0, 1, 1}),
                                                     test::rectangle({4, 2, 5, 3})};
  const Sample sample = with_masks(data).get(0);
  EXPECT_EQ(test::mask_of(sample, 0).counts, (std::vector<std::uint32_t>{3, 4, 1, 4, 3}));
  EXPECT_EQ(test::mask_of(sample, 1).counts, (std::vector<std::uint32_t>{0, 1, 13, 1}));
}

TEST(FieldReportF10, AnObjectWithoutAValidPolygonKeepsItsBoxInTraining) {
  DatasetFolder data;
  data.add_image(1, "a.png", encoded(".png", picture(60, 80)), 60, 80);
  for (const char* mask : {"[[26,31,50,31]]", "[[]]", "[]", "[[1,2,3]]", "[[10,10,20,20,30,30]]",
                           R"({"size":[60,80],"counts":[4800]})"}) {
    data.add_box(1, {10, 10, 30, 30});
    data.json["annotations"].back()["segmentation"] = Json::parse(mask);
  }
  const CocoDataset dataset = with_masks(data);
  EXPECT_EQ(dataset.reports()[0].count(CheckKind::kMaskInvalid), 6);
  Sample sample = dataset.get(0);
  Rng rng(1, RngPurpose::kTest);
  TransformPipeline({.min_sizes = {90}, .crop = true, .masks = true, .recompute_boxes = true})
      .apply(sample, rng);
  ASSERT_EQ(sample.instances.size(), 6U);
  for (const Instance& instance : sample.instances) {
    EXPECT_TRUE(instance.segmentation.empty());
    EXPECT_GT(instance.box.width(), 30);
  }
}

// Object k lies in a column of its own, polygons and RLE in turn, the third mask is invalid.
TEST(FieldReportF11, BoxAndMaskStayTogetherAfterEveryTransform) {
  DatasetFolder data;
  data.add_image(1, "a.png", encoded(".png", picture(60, 80)), 60, 80);
  for (int k = 0; k < 5; ++k) {
    const Box box{16.0 * k, 10.0 + 4 * k, 16.0 * k + 12, 40.0 + 3 * k};
    data.add_box(1, {box.x1, box.y1, box.width(), box.height()});
    const auto xy = test::rectangle(box);
    data.json["annotations"].back()["segmentation"] = k == 2 ? Json{{1, 2}}
                                                      : k % 2 == 0
                                                          ? Json{xy}
                                                          : compressed(polygon_mask(xy, {60, 80}));
  }
  const CocoDataset dataset = with_masks(data);
  const auto transforms = every_transform();
  for (std::size_t i = 0; i < transforms.size(); ++i) {
    SCOPED_TRACE(i);
    Sample sample = dataset.get(0);
    Rng rng(5, RngPurpose::kTest, i);
    transforms[i]->apply(sample, rng);
    filter_instances(sample, {.masks = true});
    EXPECT_GE(sample.instances.size(), 3U);
    for (std::size_t k = 0; k < sample.instances.size(); ++k) {
      const Instance& instance = sample.instances[k];
      EXPECT_EQ(instance.segmentation.empty(), instance.annotation_id == 3);
      if (instance.segmentation.empty()) {
        continue;
      }
      const Box pixels = test::mask_box_of(sample, k);
      EXPECT_NEAR(instance.box.x1, pixels.x1, 1);
      EXPECT_NEAR(instance.box.y1, pixels.y1, 1);
      EXPECT_NEAR(instance.box.x2, pixels.x2, 1);
      EXPECT_NEAR(instance.box.y2, pixels.y2, 1);
    }
  }
}

// An RLE that fits the size in the file, but not the picture, cannot be used: named, not guessed.
TEST(MaskChecks, RunsOfAnotherSizeThanThePictureAreRefused) {
  DatasetFolder data;
  data.add_image(1, "a.png", encoded(".png", picture(20, 30)), 40, 60);
  data.add_box(1, {1, 1, 5, 5});
  data.json["annotations"][0]["segmentation"] =
      compressed(polygon_mask(test::rectangle({1, 1, 6, 6}), {40, 60}));
  CocoDatasetOptions options = data.options();
  options.policy.set("image_size_mismatch", "fix");
  EXPECT_EQ(CocoDataset(options).get(0).instances.size(), 1U);  // boxes only
  options.keep_segmentation = true;
  const CocoDataset dataset(options);
  const std::string error = error_of([&] { dataset.get(0); });
  EXPECT_NE(error.find("annotation 1, image 1"), std::string::npos) << error;
  EXPECT_NE(error.find("60 x 40"), std::string::npos) << error;
}

}  // namespace
}  // namespace detforge
