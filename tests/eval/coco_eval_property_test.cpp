#include <cmath>

#include <gtest/gtest.h>

#include "detforge/core/rng.h"
#include "detforge/eval/coco_eval.h"
#include "detforge/eval/summary.h"
#include "eval/eval_cases.h"
#include "eval/naive_coco_eval.h"

namespace detforge {
namespace {

void expect_same(const CocoEvalResult& a, const CocoEvalResult& b) {
  EXPECT_EQ(a.precision, b.precision);
  EXPECT_EQ(a.recall, b.recall);
  EXPECT_EQ(a.scores, b.scores);
  EXPECT_EQ(a.judged, b.judged);
  ASSERT_EQ(a.summary.size(), b.summary.size());
  for (std::size_t i = 0; i < a.summary.size(); ++i) {
    EXPECT_EQ(a.summary[i].value, b.summary[i].value) << a.summary[i].key;
  }
}

/// -1 where undefined, to compare with the naive form.
void expect_naive(const CocoEvalResult& result, const test::NaiveResult& naive) {
  const CocoEvalOptions& options = result.options;
  ASSERT_EQ(naive.precision.size(), result.precision.size());
  ASSERT_EQ(naive.recall.size(), result.recall.size());
  for (std::size_t k = 0; k < result.categories.size(); ++k) {
    for (std::size_t a = 0; a < options.area_ranges.size(); ++a) {
      for (std::size_t t = 0; t < options.iou_thresholds.size(); ++t) {
        for (std::size_t r = 0; r < options.recall_thresholds.size(); ++r) {
          const std::size_t i = result.precision_index(t, r, k, a);
          ASSERT_NEAR(result.defined(k, a) ? result.precision[i] : -1, naive.precision[i], 1e-12)
              << t << " " << r << " " << k << " " << a;
        }
        for (std::size_t m = 0; m < options.max_dets.size(); ++m) {
          const std::size_t i = result.recall_index(t, k, a, m);
          ASSERT_NEAR(result.defined(k, a) ? result.recall[i] : -1, naive.recall[i], 1e-12)
              << t << " " << k << " " << a << " " << m;
        }
      }
    }
  }
}

TEST(CocoEvalProperty, EqualsTheNaiveEvaluation) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    const test::RandomCase made = test::random_case(seed);
    const CocoEvalOptions options = {.iou_thresholds = {0.25, 0.5, 0.75, 0.9},
                                     .recall_thresholds = {0, 0.1, 0.25, 0.5, 0.75, 0.9, 1},
                                     .max_dets = {1, 3, 7},
                                     .use_categories = seed % 3 != 0};
    expect_naive(evaluate_coco(made.inputs, made.detections, options),
                 test::naive_coco_eval(made.inputs, made.detections, options));
  }
}

TEST(CocoEvalProperty, PerfectDetectionsGiveOne) {
  for (std::uint64_t seed = 100; seed < 130; ++seed) {
    SCOPED_TRACE(seed);
    const EvalInputs inputs = test::random_case(seed).inputs;
    const auto result = evaluate_coco(inputs, test::perfect_detections(inputs));
    for (const SummaryMetric& metric : result.summary) {
      if (metric.value && metric.max_dets == 100) {
        EXPECT_NEAR(*metric.value, 1.0, 1e-12) << metric.key;
      }
    }
  }
}

TEST(CocoEvalProperty, OrderOfImagesCategoriesAndAnnotationsDoesNotMatter) {
  for (std::uint64_t seed = 200; seed < 220; ++seed) {
    SCOPED_TRACE(seed);
    test::RandomCase made = test::random_case(seed);
    Rng rng(seed, RngPurpose::kTest, 1);
    for (EvalDetection& detection : made.detections) {  // no ties: they go by input order
      detection.score = rng.uniform();
      detection.width += rng.uniform();
    }
    const auto before = evaluate_coco(made.inputs, made.detections);
    rng.shuffle(made.inputs.image_ids);
    rng.shuffle(made.inputs.categories);
    rng.shuffle(made.inputs.ground_truth);
    rng.shuffle(made.detections);
    expect_same(before, evaluate_coco(made.inputs, made.detections));
  }
}

TEST(CocoEvalProperty, ThreadsDoNotMatter) {
  const test::RandomCase made = test::random_case(7);
  const auto one = evaluate_coco(made.inputs, made.detections, {.threads = 1});
  for (const int threads : {0, 2, 3, 16}) {
    expect_same(one, evaluate_coco(made.inputs, made.detections, {.threads = threads}));
  }
}

TEST(CocoEvalProperty, AFalsePositiveWithTheLowestScoreChangesNothing) {
  test::RandomCase made = test::random_case(11);
  const auto before = evaluate_coco(made.inputs, made.detections);
  made.detections.push_back({.image_id = made.inputs.image_ids[0],
                             .category_id = 9,
                             .x = 5000,
                             .y = 0,
                             .width = 10,
                             .height = 10,
                             .score = -1});
  EXPECT_EQ(before.value("AP"), evaluate_coco(made.inputs, made.detections).value("AP"));
}

}  // namespace
}  // namespace detforge
