// Provocations of FIELD_REPORTS.md that concern evaluation; each test is named after its row.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "detforge/core/error.h"
#include "detforge/core/files.h"
#include "detforge/eval/category_map.h"
#include "detforge/eval/coco_eval.h"
#include "detforge/eval/coco_report.h"
#include "detforge/eval/results_json.h"
#include "eval/eval_cases.h"
#include "support/test_data.h"

namespace detforge {
namespace {

/// `count` objects of category 3 with ids 1, 2, ... in one row of image `image_id`.
EvalInputs one_image(std::int64_t image_id, int count) {
  EvalInputs inputs{.ground_truth = {}, .image_ids = {image_id}, .categories = {{3, "thing"}}};
  for (int i = 0; i < count; ++i) {
    inputs.ground_truth.push_back({.image_id = image_id,
                                   .category_id = 3,
                                   .id = i + 1,
                                   .x = 100.0 * i,
                                   .width = 40,
                                   .height = 50,
                                   .area = 2000});
  }
  return inputs;
}

bool has_note(const CocoEvalResult& result, const std::string& text) {
  return std::any_of(result.notes.begin(), result.notes.end(),
                     [&](const std::string& note) { return note.find(text) != std::string::npos; });
}

std::vector<EvalDetection> through_a_file(const std::vector<EvalDetection>& detections) {
  const test::TemporaryFolder folder;
  write_results_json(folder / "results.json", detections);
  return read_results_json(folder / "results.json").detections;
}

TEST(FieldReportF07, ResultsWithClassNumbersInsteadOfIdsAreRefusedWithAList) {
  const EvalInputs inputs = {
      .ground_truth = {}, .image_ids = {1}, .categories = {{3, "a"}, {9, "b"}, {60, "c"}}};
  const std::vector<EvalDetection> detections = {{.image_id = 1, .category_id = 0},
                                                 {.image_id = 1, .category_id = 3},
                                                 {.image_id = 1, .category_id = 2}};
  try {
    check_results_ids(detections, inputs);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("2 category id(s) are not in the data set: 0, 2"),
              std::string::npos)
        << error.what();
  }
  EXPECT_THROW(
      check_results_ids(std::vector<EvalDetection>{{.image_id = 5, .category_id = 3}}, inputs),
      Error);
}

TEST(FieldReportF07, AModelOfMoreClassesIsMatchedByName) {
  // Trained on ids {3, 9, 60}; the file to evaluate on has only "b", under another number.
  const std::vector<std::string> classes = {"a", "b", "c"};
  const CategoryMap map =
      match_categories(classes, std::vector<EvalCategory>{{70, "b"}, {71, "new"}});
  EXPECT_EQ(map.id_of_label,
            (std::vector<std::optional<std::int64_t>>{std::nullopt, 70, std::nullopt}));
  EXPECT_EQ(map.only_in_model, (std::vector<std::string>{"a", "c"}));
  EXPECT_EQ(map.only_in_data, (std::vector<std::string>{"new"}));
  EXPECT_THROW(match_categories(classes, std::vector<EvalCategory>{{1, "x"}}), Error);
  EXPECT_THROW(match_categories(classes, std::vector<EvalCategory>{{1, "a"}, {2, "a"}}), Error);
}

TEST(FieldReportF13, HugeIdsStayExact) {
  constexpr std::int64_t k2to53 = std::int64_t{1} << 53;
  const std::vector<std::int64_t> ids = {k2to53, k2to53 + 1, 900100410650,
                                         std::numeric_limits<std::int64_t>::max()};
  EvalInputs inputs{.ground_truth = {}, .image_ids = ids, .categories = {{k2to53 + 1, "thing"}}};
  for (std::size_t i = 0; i < ids.size(); ++i) {
    inputs.ground_truth.push_back({.image_id = ids[i],
                                   .category_id = k2to53 + 1,
                                   .id = ids[i],
                                   .x = 100.0 * static_cast<double>(i),
                                   .width = 40,
                                   .height = 50,
                                   .area = 2000});
  }
  const auto detections = through_a_file(test::perfect_detections(inputs));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    EXPECT_EQ(detections[i].image_id, ids[i]);
  }
  EXPECT_NO_THROW(check_results_ids(detections, inputs));
  EXPECT_EQ(evaluate_coco(inputs, detections).value("AP"), 1.0);
}

TEST(FieldReportF13, AnIdAboveInt64IsAnError) {
  const test::TemporaryFolder folder;
  files::write_atomic(
      folder / "results.json",
      R"([{"image_id":9223372036854775808,"category_id":3,"bbox":[1,2,3,4],"score":1}])");
  EXPECT_THROW(read_results_json(folder / "results.json"), Error);
}

TEST(FieldReportF77, AnAnnotationWithIdZeroIsMatched) {
  EvalInputs inputs = one_image(7, 3);
  inputs.ground_truth[0].id = 0;
  const auto detections = test::perfect_detections(inputs);
  const auto right = evaluate_coco(inputs, detections);
  EXPECT_EQ(right.value("AP"), 1.0);
  EXPECT_TRUE(has_note(right, "annotation id 0"));
  const auto compatible = evaluate_coco(inputs, detections, {.pycocotools_compat = true});
  EXPECT_LT(*compatible.value("AP"), 0.9);
  EXPECT_TRUE(has_note(compatible, "annotation id 0"));
}

TEST(FieldReportF77, TheSampleWithIdZeroIsPerfectUnlessPycocotoolsIsFollowed) {
  DETFORGE_REQUIRE_TEST_DATA("cocoeval/ann_id_zero");
  const auto folder = test::test_data_dir() / "cocoeval" / "ann_id_zero";
  const EvalInputs inputs = test::load_inputs(folder / "zero_gt.json");
  const auto detections = read_results_json(folder / "zero_dt.json").detections;
  EXPECT_EQ(evaluate_coco(inputs, detections).value("AP"), 1.0);
  EXPECT_NEAR(*evaluate_coco(inputs, detections, {.pycocotools_compat = true}).value("AP"),
              0.44224422442244227, 1e-12);
}

TEST(FieldReportF78, NoDetectionsGiveZeroAndANote) {
  const auto result = evaluate_coco(one_image(7, 2), through_a_file({}));
  EXPECT_EQ(result.value("AP"), 0.0);
  EXPECT_EQ(result.value("AR100"), 0.0);
  EXPECT_TRUE(has_note(result, "0 detections"));
}

TEST(FieldReportF79, NoGroundTruthIsNotANumber) {
  const auto result = evaluate_coco(
      one_image(7, 0), std::vector<EvalDetection>{
                           {.image_id = 7, .category_id = 3, .width = 5, .height = 5, .score = 1}});
  for (const SummaryMetric& metric : result.summary) {
    EXPECT_FALSE(metric.value.has_value()) << metric.key;
  }
  EXPECT_TRUE(has_note(result, "1 false positives in 1 images, 1.00 per image"));
  EXPECT_EQ(summary_table(result).find("-1"), std::string::npos);
  EXPECT_TRUE(metrics_json(result)["AP"].is_null());
}

TEST(FieldReportF79, NoCategoriesNoImagesIsNotANumberEither) {
  const auto result = evaluate_coco({}, {});
  EXPECT_FALSE(result.value("AP").has_value());
  EXPECT_EQ(category_table(result), "");
  EXPECT_FALSE(evaluate_coco({}, {}, {.use_categories = false}).value("AP").has_value());
}

TEST(FieldReportF79, OnlyLargeObjectsLeaveTheOtherSizesUndefined) {
  EvalInputs inputs = one_image(7, 1);
  inputs.ground_truth[0].area = 1e6;
  const auto result = evaluate_coco(inputs, test::perfect_detections(inputs));
  EXPECT_DOUBLE_EQ(*result.value("AP"), 1.0);
  EXPECT_DOUBLE_EQ(*result.value("APl"), 1.0);
  EXPECT_FALSE(result.value("APs").has_value());
  EXPECT_FALSE(result.value("ARm").has_value());
}

TEST(FieldReportF80, MoreObjectsThanMaxDetsIsSaidAndCanBeRaised) {
  const EvalInputs inputs = one_image(7, 250);
  const auto detections = test::perfect_detections(inputs);
  const auto limited = evaluate_coco(inputs, detections);
  EXPECT_NEAR(*limited.value("AP"), 41.0 / 101, 1e-12);  // recall 100 / 250 = 0.40
  EXPECT_TRUE(has_note(limited, "more than 100 objects (image 7 has 250)"));
  const auto raised = evaluate_coco(inputs, detections, {.max_dets = {1, 10, 300}});
  EXPECT_EQ(raised.value("AP"), 1.0);
  EXPECT_EQ(raised.value("AR300"), 1.0);
  EXPECT_TRUE(raised.notes.empty());
}

TEST(FieldReportF81, TheAreaOfTheFileDecidesTheSize) {
  EvalInputs inputs = one_image(7, 1);  // 40x50 = 2000: medium as a box
  inputs.ground_truth[0].area = 900;    // as a mask: small
  const auto result = evaluate_coco(inputs, test::perfect_detections(inputs));
  EXPECT_DOUBLE_EQ(*result.value("APs"), 1.0);
  EXPECT_FALSE(result.value("APm").has_value());
}

TEST(FieldReportF83, AFileGivesTheSameNumberAtAThreshold) {
  // IoU exactly 0.5 and 0.75 with sides that have no short decimal form: rounding them moves the
  // match.
  EvalInputs inputs = one_image(7, 2);
  std::vector<EvalDetection> detections = test::perfect_detections(inputs);
  for (std::size_t i = 0; i < 2; ++i) {
    const double width = 40.0 / 3;
    inputs.ground_truth[i].x = detections[i].x = 0.1F + 100.0 * static_cast<double>(i);
    inputs.ground_truth[i].width = width;
    detections[i].width = width * (i == 0 ? 0.5 : 0.75);
  }
  const auto direct = evaluate_coco(inputs, detections);
  const auto read = through_a_file(detections);
  const auto from_file = evaluate_coco(inputs, read);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(read[i].x, detections[i].x);
    EXPECT_EQ(read[i].width, detections[i].width);
    EXPECT_EQ(read[i].score, detections[i].score);
  }
  EXPECT_EQ(direct.precision, from_file.precision);
}

// Ground truth whose boxes are corners written as x, y, width, height, with good masks: the boxes
// find nothing, the masks everything.
TEST(FieldReportF82, BoxesAndMasksThatDisagreeAreSaid) {
  const EvalInputs inputs = one_image(7, 3);
  auto detections = test::perfect_detections(inputs);
  const CocoEvalResult good = evaluate_coco(inputs, detections);
  for (EvalDetection& detection : detections) {
    detection.x += 1000;
  }
  const CocoEvalResult bad = evaluate_coco(inputs, detections);
  ASSERT_TRUE(disagreement_note(bad, good).has_value());
  EXPECT_NE(disagreement_note(bad, good)->find("0.000 for boxes and 1.000 for masks"),
            std::string::npos);
  EXPECT_TRUE(disagreement_note(good, bad).has_value());
  EXPECT_FALSE(disagreement_note(good, good).has_value());
  EXPECT_FALSE(disagreement_note(bad, bad).has_value());
}

}  // namespace
}  // namespace detforge
