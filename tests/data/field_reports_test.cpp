// One test per row of FIELD_REPORTS.md section 1, with the provocation that the row names. F20 and F21
// (label files) are in field_reports_labels_test.cpp; F25 (multi-image augmentation) is still to come.
#include <limits>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "data/picture_files.h"
#include "detforge/core/rng.h"
#include "detforge/data/loader.h"

namespace detforge {
namespace {

using test::DatasetFolder;
using test::encoded;
using test::error_of;
using test::Json;
using test::LoadedCoco;
using test::picture;
using test::usable;
using test::with_boxes;

TransformPipeline only_resize(std::int64_t side) {
  return TransformPipeline(
      {.min_sizes = {side}, .max_size = 1000, .flip = TransformPipeline::Flip::kNone});
}

TEST(FieldReportF01, ZeroSizeIsDroppedAndSubPixelKept) {
  const LoadedCoco coco(with_boxes({{10, 10, 0, 5}, {10, 10, 0.4, 0.4}, {10, 10, 1, 1}}));
  EXPECT_EQ(usable(coco), (std::vector<bool>{false, true, true}));
  EXPECT_EQ(coco.report.dropped_sentence(), "Dropped 1 of 3 annotations: 1 box_zero_size.");
  EXPECT_EQ(coco.report.count(CheckKind::kBoxSubPixel), 1);
}

TEST(FieldReportF02, NegativeSizeIsRefusedAtLoadNamingFileAndAnnotation) {
  const std::string error = error_of([] {
    LoadedCoco{with_boxes({{1, 1, 5, 5}, {500, 533, -270, -278}})};
  });
  EXPECT_NE(error.find("gt.json"), std::string::npos) << error;
  EXPECT_NE(error.find("annotation 2"), std::string::npos);
  EXPECT_NE(error.find("[500, 533, -270, -278]"), std::string::npos);
  CheckPolicy policy;
  policy.set("box_negative_size", "drop");
  EXPECT_EQ(usable(LoadedCoco(with_boxes({{1, 1, 5, 5}, {500, 533, -270, -278}}), policy)),
            (std::vector<bool>{true, false}));
}

TEST(FieldReportF02, CornersInsteadOfSizesAreRecognised) {
  const Json corners = with_boxes(
      {{20, 30, 90, 95}, {50, 50, 80, 60}, {60, 10, 70, 40}, {5, 5, 20, 20}, {40, 70, 99, 100}});
  const std::string error = error_of([&] { LoadedCoco{corners}; });
  EXPECT_NE(error.find("looks like x1y1x2y2"), std::string::npos) << error;
  EXPECT_NE(error.find("4 of 5"), std::string::npos) << error;
  CheckPolicy policy;
  policy.set("boxes_look_like_corners", "fix");
  EXPECT_EQ(LoadedCoco(corners, policy).report.dropped(), 0);
  EXPECT_EQ(error_of([] {
              LoadedCoco{with_boxes({{20, 30, 70, 65}, {50, 50, 30, 10}, {60, 10, 10, 30}})};
            }),
            "");
}

// The check is on the host, when the file is read: no device has been chosen yet, so the message is
// the same.
TEST(FieldReportF03, ZeroHeightIsReportedBeforeAnyDeviceWork) {
  const LoadedCoco coco(with_boxes({{684, 8, 273, 0}}));
  EXPECT_EQ(coco.report.count(CheckKind::kBoxZeroSize), 1);
  EXPECT_NE(coco.report.to_text().find("bbox [684, 8, 273, 0]"), std::string::npos);
}

TEST(FieldReportF04, BoxesOutsideAreDroppedAndReportedApart) {
  const LoadedCoco coco(
      with_boxes({{150, 20, 30, 30}, {-40, 10, 30, 30}, {100, 0, 5, 5}, {10, 10, 5, 5}}));
  EXPECT_EQ(usable(coco), (std::vector<bool>{false, false, false, true}));
  EXPECT_EQ(coco.report.count(CheckKind::kBoxOutside), 3);
  EXPECT_EQ(coco.report.count(CheckKind::kBoxZeroSize), 0);
}

TEST(FieldReportF05, BoxesAcrossTheBorderAreClippedForTrainingAndRawForEvaluation) {
  DatasetFolder data;
  data.add_image(1, "a.png", encoded(".png", picture(60, 80)), 60, 80);
  data.add_box(1, {-5.5, -3, 40, 30});
  data.add_box(1, {70, 50, 30, 30});
  data.add_box(1, {0, 0, 80, 60});
  const CocoDataset dataset = data.open();
  const Sample sample = dataset.get(0);
  EXPECT_EQ(sample.instances[0].box, (Box{0, 0, 34.5, 27}));
  EXPECT_EQ(sample.instances[1].box, (Box{70, 50, 80, 60}));
  EXPECT_EQ(sample.instances[2].box, (Box{0, 0, 80, 60}));
  EXPECT_EQ(dataset.store().annotations()[0].box_xywh, (std::array<double, 4>{-5.5, -3, 40, 30}));
  EXPECT_EQ(dataset.reports()[0].count(CheckKind::kBoxClipped), 2);
}

TEST(FieldReportF06, AnyDistinctCategoryIdsAreMappedAndPrinted) {
  DatasetFolder data;
  data.json["categories"] = {
      {{"id", 1000000}, {"name", "c"}}, {{"id", 0}, {"name", "a"}}, {{"id", 7}, {"name", "b"}}};
  data.add_image(1, "a.png", encoded(".png", picture(60, 80)), 60, 80);
  data.add_box(1, {1, 1, 9, 9}, 7);
  const CocoDataset dataset = data.open();
  EXPECT_EQ(dataset.get(0).instances[0].label, 1);
  EXPECT_EQ(dataset.category_ids(), (std::vector<std::optional<std::int64_t>>{0, 7, 1000000}));
  EXPECT_NE(dataset.class_table().find("1000000"), std::string::npos);
  EXPECT_EQ(dataset.reports()[0].count(CheckKind::kClassWithoutInstances), 2);
}

TEST(FieldReportF07, ClassesOfAModelAreMatchedByNameAndLeftoversListed) {
  DatasetFolder data;
  data.json["categories"] = {{{"id", 9}, {"name", "b"}}, {{"id", 77}, {"name", "other"}}};
  data.add_image(1, "a.png", encoded(".png", picture(60, 80)), 60, 80);
  data.add_box(1, {1, 1, 9, 9}, 9);
  data.add_box(1, {1, 1, 9, 9}, 77);
  CocoDatasetOptions options = data.options();
  options.classes = {"a", "b", "c"};  // trained on ids 3, 9, 60
  const CocoDataset dataset(options);
  ASSERT_EQ(dataset.get(0).instances.size(), 1u);
  EXPECT_EQ(dataset.get(0).instances[0].label, 1);
  EXPECT_EQ(dataset.category_ids(),
            (std::vector<std::optional<std::int64_t>>{std::nullopt, 9, std::nullopt}));
  const CheckReport& report = dataset.reports()[0];
  EXPECT_EQ(report.count(CheckKind::kClassNotInFile), 2);
  EXPECT_EQ(report.examples(CheckKind::kClassFiltered)[0].detail, "other");
  EXPECT_EQ(report.dropped_sentence(), "Dropped 1 of 2 annotations: 1 class_filtered.");
}

TEST(FieldReportF08, ImagesWithoutObjectsAreTrainedOnWhenWanted) {
  DatasetFolder data;
  data.add_pictures(10);
  data.json["annotations"].erase(data.json["annotations"].begin() + 1,
                                 data.json["annotations"].end());
  EXPECT_EQ(data.open().size(), 1);
  CocoDatasetOptions options = data.options();
  options.filter_empty = false;
  const CocoDataset dataset(options);
  ASSERT_EQ(dataset.size(), 10);
  const TransformPipeline transforms = only_resize(32);
  TrainLoader loader(dataset, transforms, {.batch_size = 2, .threads = 1});
  std::int64_t objects = 0, empty_batches = 0;
  for (int i = 0; i < 10; ++i) {
    const Batch batch = loader.next();
    const std::int64_t here = batch.targets[0].boxes.size(0) + batch.targets[1].boxes.size(0);
    EXPECT_EQ(batch.targets[0].boxes.size(1), 4);
    objects += here;
    empty_batches += here == 0;
  }
  EXPECT_GT(empty_batches, 0);
  EXPECT_GT(objects, 0);
}

TEST(FieldReportF09, OneMaskInThreeNotationsWithoutCrowd) {
  Json json = with_boxes({{1, 0, 2, 3}, {1, 0, 2, 3}, {1, 0, 2, 3}});
  json["images"][0]["height"] = 3;
  json["images"][0]["width"] = 4;
  json["annotations"][0]["segmentation"] = {{"size", {3, 4}}, {"counts", {3, 6, 3}}};
  json["annotations"][1]["segmentation"] = {{"size", {3, 4}}, {"counts", "363"}};
  json["annotations"][2]["segmentation"] = {{1, 0, 3, 0, 3, 3, 1, 3}};
  for (Json& a : json["annotations"]) {
    a.erase("area");
  }
  const LoadedCoco coco(json);
  const auto annotations = coco.store->annotations();
  EXPECT_EQ(coco.store->segmentation(annotations[0]).rle.counts,
            (std::vector<std::uint32_t>{3, 6, 3}));
  EXPECT_EQ(coco.store->segmentation(annotations[1]).rle.counts,
            (std::vector<std::uint32_t>{3, 6, 3}));
  EXPECT_EQ(coco.store->segmentation(annotations[2]).polygons.size(), 1u);
  for (const CocoAnnotation& a : annotations) {
    EXPECT_EQ(a.area, 6) << a.id;
    EXPECT_FALSE(a.is_crowd);
  }
}

TEST(FieldReportF10, BadPolygonsLoseThePartThenTheMaskNeverTheBox) {
  Json json = with_boxes(std::vector<Json>(6, {10, 10, 30, 30}));
  json["annotations"][0]["segmentation"] = Json::parse("[[26,31,50,31]]");
  json["annotations"][1]["segmentation"] = Json::parse("[[]]");
  json["annotations"][2]["segmentation"] = Json::parse("[]");
  json["annotations"][3]["segmentation"] = Json::parse("[[1,2,3]]");
  json["annotations"][4]["segmentation"] = Json::parse("[[10,10,20,20,30,30]]");
  json["annotations"][5]["segmentation"] = Json::parse(
      "[[10,10,20,20],[10,10,20,10,20,20,10],"
      "[10,10,20,10,20,20]]");
  const LoadedCoco coco(json);
  EXPECT_EQ(usable(coco), std::vector<bool>(6, true));
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_TRUE(coco.store->segmentation(coco.store->annotations()[i]).empty()) << i;
  }
  EXPECT_EQ(coco.store->segmentation(coco.store->annotations()[5]).polygons,
            (std::vector<std::vector<double>>{{10, 10, 20, 10, 20, 20}}));
  EXPECT_EQ(coco.report.count(CheckKind::kPolygonPartInvalid), 6);
  EXPECT_EQ(coco.report.count(CheckKind::kMaskInvalid), 5);
}

TEST(FieldReportF11, BoxAndMaskStayTogetherThroughFiltersAndTransforms) {
  DatasetFolder data;
  data.add_image(1, "a.png", encoded(".png", picture(60, 80)), 60, 80);
  for (int k = 0; k < 5; ++k) {
    const int x = 10 * k, y = 5 * k;
    data.add_box(1, {x, y, 8, 6});
    data.json["annotations"].back()["segmentation"] = {
        k == 2 ? Json{1, 2} : Json{x, y, x + 8, y, x + 8, y + 6, x, y + 6}};
  }
  data.json["annotations"][1]["bbox"] = {0, 0, 0, 4};
  CocoDatasetOptions options = data.options();
  options.keep_segmentation = true;
  Sample sample = CocoDataset(options).get(0);
  ASSERT_EQ(sample.instances.size(), 4u);
  Rng rng(1, RngPurpose::kTest);
  TransformPipeline({.min_sizes = {90}, .max_size = 200, .flip_probability = 1, .crop = true})
      .apply(sample, rng);
  int masks = 0;
  for (const Instance& instance : sample.instances) {
    EXPECT_EQ(instance.segmentation.empty(), instance.annotation_id == 3);
    for (const std::vector<double>& xy : instance.segmentation.polygons) {
      double x1 = std::numeric_limits<double>::infinity(), y2 = 0;
      for (std::size_t i = 0; i < xy.size(); i += 2) {
        x1 = std::min(x1, xy[i]);
        y2 = std::max(y2, xy[i + 1]);
      }
      EXPECT_NEAR(std::max(x1, 0.0), instance.box.x1, 1e-6);
      EXPECT_NEAR(std::min(y2, static_cast<double>(sample.image.height)), instance.box.y2, 1e-6);
      ++masks;
    }
  }
  EXPECT_GT(masks, 0);
}

TEST(FieldReportF12, AnnotationIdsMayRepeatOrBeAbsent) {
  Json json = with_boxes(std::vector<Json>(14, {10, 10, 30, 30}));
  for (Json& a : json["annotations"]) {
    a["id"] = 0;
  }
  const LoadedCoco zeros(json);
  EXPECT_EQ(usable(zeros), std::vector<bool>(14, true));
  EXPECT_EQ(zeros.report.count(CheckKind::kDuplicateAnnotationId), 13);
  EXPECT_EQ(zeros.report.examples(CheckKind::kDuplicateAnnotationId).size(), 10u);
  for (std::size_t i = 0; i < 14; ++i) {
    json["annotations"][i]["id"] = 2 * i;  // 0 2 4 ... 26
  }
  json["annotations"][3].erase("id");
  json["annotations"][7]["id"] = nullptr;
  json["annotations"][13].erase("id");
  const LoadedCoco missing(json);
  EXPECT_EQ(missing.report.count(CheckKind::kMissingAnnotationId), 3);
  std::set<std::int64_t> ids;
  for (const CocoAnnotation& a : missing.store->annotations()) {
    ids.insert(a.id);
  }
  EXPECT_EQ(ids.size(), 14u);
}

TEST(FieldReportF13, HugeIdsStayExact) {
  const std::vector<std::int64_t> ids{9007199254740992, 9007199254740993, 900100410650,
                                      std::numeric_limits<std::int64_t>::max()};
  DatasetFolder data;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    data.add_image(ids[i], "p" + std::to_string(i) + ".png", encoded(".png", picture(20, 30)), 20,
                   30);
    data.add_box(ids[i], {1, 1, 5, 5});
    data.json["annotations"].back()["id"] = ids[i];
  }
  const CocoDataset dataset = data.open();
  const TransformPipeline transforms = only_resize(20);
  EvalLoader loader(dataset, transforms, {.batch_size = 4, .threads = 2});
  EXPECT_EQ(loader.next()->images.image_ids,
            (std::vector<std::int64_t>{ids[2], ids[0], ids[1], ids[3]}));  // sorted
  EXPECT_EQ(dataset.get(2).instances[0].annotation_id, ids[1]);
  std::string text = data.json.dump();
  text.replace(text.rfind("9223372036854775807"), 19, "9223372036854775808");
  EXPECT_NE(error_of([&] { LoadedCoco{text}; }).find("9223372036854775808, not a 64-bit integer"),
            std::string::npos);
}

}  // namespace
}  // namespace detforge
