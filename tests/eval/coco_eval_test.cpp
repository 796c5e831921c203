#include "detforge/eval/coco_eval.h"

#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

#include <gtest/gtest.h>

#include "detforge/core/error.h"

namespace detforge {
namespace {

/// One image (7), one category (3), 10x10 objects in a row at x = 0, 100, 200, ... unless changed.
EvalInputs row_of_objects(int count) {
  EvalInputs inputs{.ground_truth = {}, .image_ids = {7}, .categories = {{3, "thing"}}};
  for (int i = 0; i < count; ++i) {
    inputs.ground_truth.push_back({.image_id = 7,
                                   .category_id = 3,
                                   .id = i + 1,
                                   .x = 100.0 * i,
                                   .y = 0,
                                   .width = 10,
                                   .height = 10,
                                   .area = 100});
  }
  return inputs;
}

EvalDetection at(double x, double score) {
  return {
      .image_id = 7, .category_id = 3, .x = x, .y = 0, .width = 10, .height = 10, .score = score};
}

TEST(CocoEval, InterpolatesPrecisionAtRecallPoints) {
  // Hit, miss, hit on two objects: recall 1/2, 1/2, 1; precision 1, 1/2, 2/3; best from there on 1,
  // 2/3, 2/3. Recall points 0.00..0.50 (51) see 1, 0.51..1.00 (50) see 2/3.
  const auto result =
      evaluate_coco(row_of_objects(2), std::vector{at(0, 0.9), at(50, 0.8), at(100, 0.7)});
  EXPECT_NEAR(*result.value("AP"), (51 + 50 * 2.0 / 3) / 101, 1e-12);
  EXPECT_NEAR(*result.value("AP50"), (51 + 50 * 2.0 / 3) / 101, 1e-12);
  EXPECT_DOUBLE_EQ(*result.value("AR100"), 1.0);
  EXPECT_EQ(result.scores[result.precision_index(0, 0, 0, 0)], 0.9);
  EXPECT_EQ(result.scores[result.precision_index(0, 51, 0, 0)], 0.7);
}

TEST(CocoEval, RecallThatIsNeverReachedHasPrecisionZero) {
  // One of four objects found: recall points 0.00..0.25 (26) see 1, the others 0.
  const auto result = evaluate_coco(row_of_objects(4), std::vector{at(0, 0.9)});
  EXPECT_NEAR(*result.value("AP"), 26.0 / 101, 1e-12);
  EXPECT_DOUBLE_EQ(*result.value("AR100"), 0.25);
}

TEST(CocoEval, AnIouEqualToTheThresholdIsAMatch) {
  // 10x10 inside 10x20: IoU = 100 / 200 = 0.5. Only the first of ten thresholds is met.
  EvalInputs inputs = row_of_objects(1);
  inputs.ground_truth[0].height = 20;
  const auto result = evaluate_coco(inputs, std::vector{at(0, 0.9)});
  EXPECT_DOUBLE_EQ(*result.value("AP50"), 1.0);
  EXPECT_DOUBLE_EQ(*result.value("AP75"), 0.0);
  EXPECT_DOUBLE_EQ(*result.value("AP"), 0.1);
}

TEST(CocoEval, ASecondDetectionOfAnObjectIsWrong) {
  // Duplicate with the second score: recall 1/2, 1/2, 1, as hit, miss, hit.
  const auto result =
      evaluate_coco(row_of_objects(2), std::vector{at(0, 0.9), at(0, 0.8), at(100, 0.7)});
  EXPECT_NEAR(*result.value("AP"), (51 + 50 * 2.0 / 3) / 101, 1e-12);
}

TEST(CocoEval, TiedScoresKeepInputOrder) {
  // Miss then hit, same score: precision 1/2 at recall 1. Hit then miss: 1.
  EXPECT_DOUBLE_EQ(
      *evaluate_coco(row_of_objects(1), std::vector{at(50, 0.5), at(0, 0.5)}).value("AP"), 0.5);
  EXPECT_DOUBLE_EQ(
      *evaluate_coco(row_of_objects(1), std::vector{at(0, 0.5), at(50, 0.5)}).value("AP"), 1.0);
}

TEST(CocoEval, ACrowdSwallowsAnyNumberOfDetections) {
  // The crowd covers x = 100..300; three detections inside have intersection / detection area = 1:
  // ignored.
  EvalInputs inputs = row_of_objects(1);
  inputs.ground_truth.push_back({.image_id = 7,
                                 .category_id = 3,
                                 .id = 9,
                                 .x = 100,
                                 .y = 0,
                                 .width = 200,
                                 .height = 50,
                                 .area = 10000,
                                 .is_crowd = true});
  const auto result =
      evaluate_coco(inputs, std::vector{at(110, 0.9), at(150, 0.8), at(200, 0.7), at(0, 0.6)});
  EXPECT_DOUBLE_EQ(*result.value("AP"), 1.0);
  EXPECT_EQ(result.ground_truth_count, 1);
}

TEST(CocoEval, MaxDetsKeepsTheBestOfAnImage) {
  // Three objects, three right detections: the best one alone finds 1/3.
  const auto result =
      evaluate_coco(row_of_objects(3), std::vector{at(0, 0.9), at(100, 0.8), at(200, 0.7)});
  EXPECT_NEAR(*result.value("AR1"), 1.0 / 3, 1e-15);
  EXPECT_DOUBLE_EQ(*result.value("AR10"), 1.0);
}

TEST(CocoEval, MaxDetsMayComeInAnyOrder) {
  const auto result =
      evaluate_coco(row_of_objects(3), std::vector{at(0, 0.9), at(100, 0.8), at(200, 0.7)},
                    {.max_dets = {10, 2}});
  EXPECT_DOUBLE_EQ(*result.value("AP"), 1.0);
  EXPECT_NEAR(*result.value("AR2"), 2.0 / 3, 1e-15);
  EXPECT_DOUBLE_EQ(*result.value("AR10"), 1.0);
}

TEST(CocoEval, AnAreaOnTheBorderIsInBothRanges) {
  EvalInputs inputs = row_of_objects(1);
  inputs.ground_truth[0].area = 32 * 32;
  const auto result = evaluate_coco(inputs, std::vector{at(0, 0.9)});
  EXPECT_DOUBLE_EQ(*result.value("APs"), 1.0);
  EXPECT_DOUBLE_EQ(*result.value("APm"), 1.0);
  EXPECT_FALSE(result.value("APl").has_value());
}

TEST(CocoEval, ACategoryWithoutObjectsDoesNotEnterTheMean) {
  EvalInputs inputs = row_of_objects(1);
  inputs.categories.push_back({8, "absent"});
  EvalDetection wrong = at(0, 0.9);
  wrong.category_id = 8;
  const auto result = evaluate_coco(inputs, std::vector{at(0, 0.5), wrong});
  EXPECT_DOUBLE_EQ(*result.value("AP"), 1.0);
  EXPECT_FALSE(result.per_category[1].ap.has_value());
  EXPECT_EQ(result.per_category[1].detection_count, 1);
}

TEST(CocoEval, WithoutCategoriesTheClassDoesNotMatter) {
  EvalInputs inputs = row_of_objects(1);
  inputs.categories.push_back({8, "other"});
  EvalDetection other = at(0, 0.9);
  other.category_id = 8;
  EXPECT_DOUBLE_EQ(*evaluate_coco(inputs, std::vector{other}).value("AP"), 0.0);
  EXPECT_DOUBLE_EQ(
      *evaluate_coco(inputs, std::vector{other}, {.use_categories = false}).value("AP"), 1.0);
}

TEST(CocoEval, TakesIousAndAreasFromTheCaller) {
  // The source says that detection 0 is the object, although the boxes are apart; area 5000 makes
  // it medium.
  EvalInputs inputs = row_of_objects(1);
  const IouSource all_same = [](auto, auto, std::span<double> iou) {
    std::fill(iou.begin(), iou.end(), 0.8);
  };
  const auto matched = evaluate_coco(inputs, std::vector{at(500, 0.9)}, {}, all_same);
  EXPECT_DOUBLE_EQ(*matched.value("AP50"), 1.0);
  EXPECT_DOUBLE_EQ(*matched.value("AP"), 0.7);  // 0.50, 0.55, ..., 0.80
  const IouSource none = [](auto, auto, std::span<double> iou) {
    std::fill(iou.begin(), iou.end(), 0.0);
  };
  const auto missed = evaluate_coco(inputs, std::vector{at(500, 0.9), at(0, 0.1)}, {}, none,
                                    std::vector{5000.0, 1.0});
  EXPECT_DOUBLE_EQ(*missed.value("AP"), 0.0);
}

TEST(CocoEval, AnErrorInAThreadReachesTheCaller) {
  EvalInputs inputs = row_of_objects(1);
  const IouSource fails = [](auto, auto, auto) { throw Error("no mask", "give masks"); };
  EXPECT_THROW(evaluate_coco(inputs, std::vector{at(0, 0.9)}, {.threads = 4}, fails), Error);
}

TEST(CocoEval, RefusesWhatCannotBeEvaluated) {
  const EvalInputs inputs = row_of_objects(1);
  EXPECT_THROW(evaluate_coco(inputs, std::vector{at(0, std::nan(""))}), Error);
  EXPECT_THROW(evaluate_coco(inputs, std::vector{at(0, std::numeric_limits<double>::infinity())}),
               Error);
  EXPECT_THROW(evaluate_coco(inputs, {}, {.iou_thresholds = std::vector<double>(65, 0.5)}), Error);
  EXPECT_THROW(evaluate_coco(inputs, {}, {.iou_thresholds = {0.0}}), Error);
  EXPECT_THROW(evaluate_coco(inputs, {}, {.recall_thresholds = {0.5, 0.1}}), Error);
  EXPECT_THROW(evaluate_coco(inputs, {}, {.max_dets = {}}), Error);
  EXPECT_THROW(evaluate_coco(inputs, std::vector{at(0, 1)}, {}, {}, std::vector{1.0, 2.0}), Error);
}

TEST(CocoEval, AThresholdOfOneIsReachedByTheSameBox) {
  const auto result =
      evaluate_coco(row_of_objects(1), std::vector{at(0, 0.9)}, {.iou_thresholds = {1.0}});
  EXPECT_DOUBLE_EQ(*result.value("AP"), 1.0);
  EXPECT_FALSE(result.value("AP50").has_value());
}

TEST(CocoEval, CountsWhatIsNotEvaluated) {
  EvalInputs inputs = row_of_objects(1);
  inputs.ground_truth.push_back(
      {.image_id = 99, .category_id = 3, .id = 5, .width = 1, .height = 1, .area = 1});
  EvalDetection elsewhere = at(0, 0.9);
  elsewhere.image_id = 99;
  const auto result = evaluate_coco(inputs, std::vector{at(0, 0.5), elsewhere});
  EXPECT_DOUBLE_EQ(*result.value("AP"), 1.0);
  ASSERT_EQ(result.notes.size(), 2U);
  EXPECT_EQ(result.notes[0].find("1 detections"), 0U) << result.notes[0];
  EXPECT_EQ(result.notes[1].find("1 objects"), 0U) << result.notes[1];
}

}  // namespace
}  // namespace detforge
