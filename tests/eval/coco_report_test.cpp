#include "detforge/eval/coco_report.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace detforge {
namespace {

/// Category 3 has two small objects, both found; category 8 has no object but one detection.
CocoEvalResult small_result() {
  const EvalInputs inputs = {
      .ground_truth =
          {{.image_id = 6, .category_id = 3, .id = 1, .width = 10, .height = 10, .area = 100},
           {.image_id = 7, .category_id = 3, .id = 2, .width = 10, .height = 10, .area = 100}},
      .image_ids = {6, 7},
      .categories = {{3, "thing"}, {8, "no, \"really\""}}};
  const std::vector<EvalDetection> detections = {
      {.image_id = 6, .category_id = 3, .width = 10, .height = 10, .score = 0.9},
      {.image_id = 7, .category_id = 3, .width = 10, .height = 10, .score = 0.9},
      {.image_id = 7, .category_id = 8, .width = 10, .height = 10, .score = 0.8}};
  return evaluate_coco(inputs, detections);
}

TEST(CocoReport, PrintsPycocotoolsLines) {
  EXPECT_EQ(summary_table(small_result()),
            " Average Precision  (AP) @[ IoU=0.50:0.95 | area=   all | maxDets=100 ] = 1.000\n"
            " Average Precision  (AP) @[ IoU=0.50      | area=   all | maxDets=100 ] = 1.000\n"
            " Average Precision  (AP) @[ IoU=0.75      | area=   all | maxDets=100 ] = 1.000\n"
            " Average Precision  (AP) @[ IoU=0.50:0.95 | area= small | maxDets=100 ] = 1.000\n"
            " Average Precision  (AP) @[ IoU=0.50:0.95 | area=medium | maxDets=100 ] = n/a\n"
            " Average Precision  (AP) @[ IoU=0.50:0.95 | area= large | maxDets=100 ] = n/a\n"
            " Average Recall     (AR) @[ IoU=0.50:0.95 | area=   all | maxDets=  1 ] = 1.000\n"
            " Average Recall     (AR) @[ IoU=0.50:0.95 | area=   all | maxDets= 10 ] = 1.000\n"
            " Average Recall     (AR) @[ IoU=0.50:0.95 | area=   all | maxDets=100 ] = 1.000\n"
            " Average Recall     (AR) @[ IoU=0.50:0.95 | area= small | maxDets=100 ] = 1.000\n"
            " Average Recall     (AR) @[ IoU=0.50:0.95 | area=medium | maxDets=100 ] = n/a\n"
            " Average Recall     (AR) @[ IoU=0.50:0.95 | area= large | maxDets=100 ] = n/a\n");
}

TEST(CocoReport, AlignsTheTableOfCategories) {
  EXPECT_EQ(
      category_table(small_result()),
      "category          AP    AP50    AP75     APs     APm     APl   AR100  objects detections\n"
      "thing          1.000   1.000   1.000   1.000     n/a     n/a   1.000        2          2\n"
      "no, \"really\"     n/a     n/a     n/a     n/a     n/a     n/a     n/a        0          "
      "1\n");
}

TEST(CocoReport, WritesCsvWithEmptyFieldsForUndefined) {
  EXPECT_EQ(category_csv(small_result()),
            "category_id,category,AP,AP50,AP75,APs,APm,APl,AR100,objects,detections\n"
            "3,thing,1,1,1,1,,,1,2,2\n"
            "8,\"no, \"\"really\"\"\",,,,,,,,0,1\n");
}

TEST(CocoReport, WritesJsonWithNullForUndefined) {
  const auto json = metrics_json(small_result());
  EXPECT_EQ(json["AP"], 1.0);
  EXPECT_TRUE(json["APl"].is_null());
  EXPECT_EQ(json["per_category"][0]["name"], "thing");
  EXPECT_TRUE(json["per_category"][1]["AP"].is_null());
  EXPECT_EQ(json["per_category"][1]["detections"], 1);
  EXPECT_EQ(json.dump().find("nan"), std::string::npos);
}

TEST(CocoReport, BoxesAndMasksAreTwoSectionsOfOneJson) {
  const CocoEvalResult result = small_result();
  const auto json = metrics_json(result, evaluate_coco({}, {}));
  EXPECT_EQ(json.size(), 2U);
  EXPECT_EQ(json.at("bbox"), metrics_json(result));
  EXPECT_TRUE(json.at("segm").at("AP").is_null());
}

}  // namespace
}  // namespace detforge
