// A dataset in YOLO or Pascal VOC form is judged like the same dataset in COCO form.
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "detforge/core/rng.h"
#include "detforge/data/write_dataset.h"
#include "detforge/eval/coco_ground_truth.h"
#include "support/test_data.h"

namespace detforge {
namespace {

namespace fs = std::filesystem;

std::shared_ptr<const CocoStore> load(AnnotationFormat format,
                                      const std::string& source,
                                      const std::string& images = "") {
  CheckReport report;
  return load_annotations(format, source, {.image_root = images}, report);
}

/// Boxes near the annotated ones, some missing and some of another class.
std::vector<EvalDetection> made_up_detections(const CocoStore& store) {
  Rng rng(11, RngPurpose::kTest);
  std::vector<EvalDetection> detections;
  for (const CocoImage& image : store.images()) {
    for (const CocoAnnotation& a : store.annotations(image)) {
      const double shift_x = rng.uniform(-6, 6), shift_y = rng.uniform(-6, 6);
      const bool is_other = rng.uniform() < 0.1, is_missing = rng.uniform() < 0.2;
      const double score = rng.uniform();
      if (!is_missing) {
        detections.push_back({.image_id = image.id,
                              .category_id = is_other ? store.categories()[0].id : a.category_id,
                              .x = a.box_xywh[0] + shift_x,
                              .y = a.box_xywh[1] + shift_y,
                              .width = a.box_xywh[2],
                              .height = a.box_xywh[3],
                              .score = score});
      }
    }
  }
  return detections;
}

/// The same detections in the ids that another store has for the same images and classes.
std::vector<EvalDetection> translated(std::vector<EvalDetection> detections,
                                      const CocoStore& from,
                                      const CocoStore& to) {
  std::map<std::string, std::int64_t> images, categories;
  for (const CocoImage& image : to.images()) {
    images[std::string(to.file_name(image))] = image.id;
  }
  for (const CocoCategory& category : to.categories()) {
    categories[category.name] = category.id;
  }
  for (EvalDetection& detection : detections) {
    for (const CocoCategory& category : from.categories()) {
      if (category.id == detection.category_id) {
        detection.category_id = categories.at(category.name);
        break;
      }
    }
    detection.image_id =
        images.at(std::string(from.file_name(*from.find_image(detection.image_id))));
  }
  return detections;
}

TEST(LabelFormats, GiveTheMetricsOfTheSameDatasetInCocoForm) {
  DETFORGE_REQUIRE_TEST_DATA("bccd");
  const fs::path bccd = test::test_data_dir() / "bccd";
  const auto coco = load(AnnotationFormat::kCoco, (bccd / "annotations/val.json").string(),
                         (bccd / "images").string());
  const test::TemporaryFolder out;
  const WriteOptions options{
      .output = out.path(), .split = "val", .images = WriteOptions::Images::kLink};
  write_dataset(AnnotationFormat::kYolo, *coco, options);
  write_dataset(AnnotationFormat::kVoc, *coco, options);
  const CocoEvalResult expected = evaluate_coco(eval_inputs(*coco), made_up_detections(*coco));
  ASSERT_GT(expected.summary[0].value.value_or(0), 0.2);
  ASSERT_LT(expected.summary[0].value.value_or(1), 0.9);
  const auto yolo = load(AnnotationFormat::kYolo, (out / "val.txt").string());
  const auto voc = load(AnnotationFormat::kVoc, out.path().string() + ":val");
  EXPECT_EQ(yolo->categories()[1].id, 2);
  EXPECT_EQ(voc->categories()[0].name, "Platelets");  // sorted, so other ids than in COCO's file
  for (const CocoStore* store : {yolo.get(), voc.get()}) {
    EXPECT_EQ(store->images()[0].id, 1);
    const auto detections = translated(made_up_detections(*coco), *coco, *store);
    const CocoEvalResult actual = evaluate_coco(eval_inputs(*store), detections);
    for (std::size_t i = 0; i < expected.summary.size(); ++i) {
      ASSERT_EQ(actual.summary[i].value.has_value(), expected.summary[i].value.has_value());
      EXPECT_NEAR(actual.summary[i].value.value_or(0), expected.summary[i].value.value_or(0), 1e-12)
          << expected.summary[i].key;
    }
  }
}

}  // namespace
}  // namespace detforge
