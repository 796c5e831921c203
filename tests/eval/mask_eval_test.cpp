#include "detforge/eval/mask_eval.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "detforge/core/error.h"
#include "eval/eval_cases.h"

namespace detforge {
namespace {

constexpr ImageSize kSize = {200, 220};

/// The mask of a box with whole numbers inside an image of kSize.
Rle rectangle(double x, double y, double width, double height) {
  const auto column = static_cast<std::uint32_t>(height);
  const auto rest = static_cast<std::uint32_t>(kSize.height) - column;
  Rle mask{kSize, {static_cast<std::uint32_t>(x * 200 + y)}};
  std::uint32_t left = 200 * 220 - mask.counts[0];
  for (int i = 0; i < static_cast<int>(width); ++i) {
    mask.counts.push_back(column);
    mask.counts.push_back(rest);
    left -= column + rest;
  }
  mask.counts.back() += left;  // all but the gap behind the last column are behind it
  return mask;
}

template <typename Boxes>
RleList rectangles(const Boxes& boxes) {
  RleList masks;
  for (const auto& box : boxes) {
    masks.push_back(rectangle(box.x, box.y, box.width, box.height));
  }
  return masks;
}

EvalGroundTruth object(std::int64_t id, double area, bool is_crowd = false) {
  return {.image_id = 1, .category_id = 1, .id = id, .area = area, .is_crowd = is_crowd};
}

/// One image, one category.
EvalInputs inputs_of(std::vector<EvalGroundTruth> objects) {
  return {.ground_truth = std::move(objects), .image_ids = {1}, .categories = {{1, "thing"}}};
}

EvalDetection detection(double score) {
  return {.image_id = 1, .category_id = 1, .score = score};
}

/// The text of the Error that evaluating gives.
std::string error_of(const EvalInputs& inputs,
                     const RleList& gt_masks,
                     const std::vector<EvalDetection>& detections,
                     const RleList& masks) {
  try {
    evaluate_coco_masks(inputs, gt_masks, detections, masks);
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

// Object: 40 x 50 at (10, 10). First detection: the left 32 columns, IoU 0.8, right at thresholds
// 0.50 to 0.80 (7 of 10). Its boxes are all zero: only masks count.
TEST(MaskEval, HandMadeCase) {
  const EvalInputs inputs = inputs_of({object(5, 2000)});
  RleList gt_masks, masks;
  gt_masks.push_back(rectangle(10, 10, 40, 50));
  masks.push_back(rectangle(10, 10, 32, 50));
  const auto result = evaluate_coco_masks(inputs, gt_masks, std::vector{detection(0.9)}, masks);
  EXPECT_DOUBLE_EQ(*result.value("AP"), 0.7);
  EXPECT_DOUBLE_EQ(*result.value("AP75"), 1.0);
  EXPECT_DOUBLE_EQ(*result.value("APm"), 0.7);
  EXPECT_FALSE(result.value("APs").has_value());
  EXPECT_TRUE(result.notes.empty());
}

// A crowd of the left half of the image: a detection inside it is ignored, though its IoU is small.
TEST(MaskEval, ADetectionInsideACrowdIsIgnored) {
  const EvalInputs inputs = inputs_of({object(5, 2000), object(6, 22000, true)});
  RleList gt_masks, masks;
  gt_masks.push_back(rectangle(150, 10, 40, 50));
  gt_masks.push_back(rectangle(0, 0, 110, 200));
  masks.push_back(rectangle(20, 20, 30, 30));
  masks.push_back(rectangle(150, 10, 40, 50));
  const auto result =
      evaluate_coco_masks(inputs, gt_masks, std::vector{detection(0.9), detection(0.8)}, masks);
  EXPECT_DOUBLE_EQ(*result.value("AP"), 1.0);
}

// Unmatched, 30 x 30 = 900 pixels: small, so it is wrong among the small ones and ignored among the
// medium ones, whatever its box says. With area_of_boxes the box decides, which is large.
TEST(MaskEval, TheAreaOfADetectionIsItsMasks) {
  const EvalInputs inputs = inputs_of({object(5, 2000), object(6, 500)});
  RleList gt_masks, masks;
  gt_masks.push_back(rectangle(150, 10, 40, 50));
  gt_masks.push_back(rectangle(100, 100, 20, 25));
  masks.push_back(rectangle(20, 20, 30, 30));
  masks.push_back(rectangle(150, 10, 40, 50));
  masks.push_back(rectangle(100, 100, 20, 25));
  std::vector<EvalDetection> detections = {detection(0.9), detection(0.8), detection(0.7)};
  detections[0].width = detections[0].height = 200;
  const auto result = evaluate_coco_masks(inputs, gt_masks, detections, masks);
  EXPECT_DOUBLE_EQ(*result.value("APm"), 1.0);
  EXPECT_NEAR(*result.value("APs"), 0.5, 1e-12);
  const auto by_box =
      evaluate_coco_masks(inputs, gt_masks, detections, masks, {.area_of_boxes = true});
  EXPECT_DOUBLE_EQ(*by_box.value("APs"), 1.0);
}

/// Masks that fill boxes of whole numbers have the IoU and the area of those boxes.
TEST(MaskEval, RectanglesGiveTheNumbersOfBoxes) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const test::RandomCase made = test::random_case(seed);
    const CocoEvalResult boxes = evaluate_coco(made.inputs, made.detections);
    const CocoEvalResult masks = evaluate_coco_masks(
        made.inputs, rectangles(made.inputs.ground_truth), made.detections,
        rectangles(made.detections), {.threads = 1 + static_cast<int>(seed % 3)});
    ASSERT_EQ(masks.precision, boxes.precision) << seed;
    ASSERT_EQ(masks.recall, boxes.recall) << seed;
    ASSERT_EQ(masks.scores, boxes.scores) << seed;
  }
}

TEST(MaskEval, SaysThatObjectsHaveNoMask) {
  const EvalInputs inputs = inputs_of({object(5, 2000), object(6, 500)});
  RleList gt_masks, masks;
  gt_masks.push_back(rectangle(150, 10, 40, 50));
  gt_masks.push_back(Rle{kSize, {200 * 220}});
  masks.push_back(rectangle(150, 10, 40, 50));
  const auto result = evaluate_coco_masks(inputs, gt_masks, std::vector{detection(0.9)}, masks);
  ASSERT_EQ(result.notes.size(), 1U);
  EXPECT_NE(result.notes[0].find("1 object(s) have no mask"), std::string::npos);
  EXPECT_EQ(result.value("AR100"), 0.5);
}

TEST(MaskEval, RefusesListsAndMasksThatDoNotFit) {
  const EvalInputs inputs = inputs_of({object(5, 2000)});
  RleList one, two, other_size;
  one.push_back(rectangle(0, 0, 10, 10));
  two.append(one);
  two.append(one);
  other_size.push_back(Rle{{220, 200}, {0, 44000}});
  const std::vector<EvalDetection> detections = {detection(0.5)};
  EXPECT_EQ(error_of(inputs, one, detections, one), "");
  EXPECT_NE(error_of(inputs, two, detections, one).find("2 masks for 1 objects"),
            std::string::npos);
  EXPECT_NE(error_of(inputs, one, detections, two).find("2 masks for 1 detections"),
            std::string::npos);
  const std::string sizes = error_of(inputs, one, detections, other_size);
  EXPECT_NE(sizes.find("220 x 200 is compared with one of 200 x 220"), std::string::npos) << sizes;
  EXPECT_NE(sizes.find("image 1, annotation 5"), std::string::npos) << sizes;
}

}  // namespace
}  // namespace detforge
