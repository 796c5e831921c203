#include "detforge/models/matcher.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "detforge/core/error.h"
#include "detforge/ops/iou.h"
#include "support/test_data.h"
#include "support/torch/random_boxes.h"
#include "support/torch/tensors.h"

namespace detforge {
namespace {

using test::expect_close;

Tensor labels_of(std::initializer_list<std::int64_t> values) {
  return torch::tensor(std::vector<std::int64_t>(values), torch::kLong);
}

// Written after the definition, one box at a time.
Matches naive_match(const Tensor& iou, const MatcherOptions& options) {
  const std::int64_t rows = iou.size(0);
  const std::int64_t columns = iou.size(1);
  Matches matches{torch::zeros({columns}, torch::kLong), torch::zeros({columns}, torch::kLong)};
  for (std::int64_t n = 0; n < columns; ++n) {
    float best = -1;
    for (std::int64_t g = 0; g < rows; ++g) {
      if (iou[g][n].item<float>() > best) {
        best = iou[g][n].item<float>();
        matches.gt_index[n] = g;
      }
    }
    std::size_t range = 0;
    while (range < options.iou_thresholds.size() &&
           best >= static_cast<float>(options.iou_thresholds[range])) {
      ++range;
    }
    matches.labels[n] = options.labels[range];
    for (std::int64_t g = 0; options.allow_low_quality && g < rows; ++g) {
      if (iou[g][n].item<float>() > 0 && iou[g][n].equal(iou[g].max())) {
        matches.labels[n] = 1;
      }
    }
  }
  return matches;
}

TEST(Matcher, LabelsByThresholds) {
  const Tensor iou = torch::tensor({{0.29F, 0.3F, 0.69F, 0.7F}, {0.1F, 0.2F, 0.1F, 0.71F}});
  const Matches matches = Matcher({.allow_low_quality = false}).match(iou);
  EXPECT_TRUE(expect_close(matches.labels, labels_of({0, -1, -1, 1}), {}));
  EXPECT_TRUE(expect_close(matches.gt_index, labels_of({0, 0, 0, 1}), {}));
}

TEST(Matcher, LowQualityMatchTakesAllTiesOfTheBest) {
  const Tensor iou = torch::tensor({{0.1F, 0.2F, 0.2F, 0.0F}});
  EXPECT_TRUE(expect_close(Matcher({}).match(iou).labels, labels_of({0, 1, 1, 0}), {}));
}

TEST(Matcher, GroundTruthThatOverlapsNothingMatchesNothing) {
  const Tensor iou = torch::tensor({{0.0F, 0.0F}, {0.8F, 0.0F}});
  EXPECT_TRUE(expect_close(Matcher({}).match(iou).labels, labels_of({1, 0}), {}));
  const Matcher as_detectron2({.match_without_overlap = true});
  EXPECT_TRUE(expect_close(as_detectron2.match(iou).labels, labels_of({1, 1}), {}));
}

TEST(Matcher, WithoutGroundTruthAllAreNegative) {
  const Matches matches =
      Matcher({}).match_boxes(torch::zeros({0, 4}), test::random_boxes(3, 50, 1));
  EXPECT_TRUE(expect_close(matches.labels, labels_of({0, 0, 0}), {}));
  EXPECT_TRUE(expect_close(matches.gt_index, labels_of({0, 0, 0}), {}));
}

TEST(Matcher, WithoutBoxesGivesNothing) {
  EXPECT_EQ(
      Matcher({}).match_boxes(test::random_boxes(3, 50, 1), torch::zeros({0, 4})).labels.numel(),
      0);
}

TEST(Matcher, RefusesImpossibleOptions) {
  EXPECT_THROW(Matcher({.iou_thresholds = {0.7, 0.3}}), Error);
  EXPECT_THROW(Matcher({.iou_thresholds = {0.5}}), Error);
  EXPECT_THROW(Matcher({.labels = {0, 2, 1}}), Error);
}

TEST(MatcherProperty, EqualsNaiveLoop) {
  const Tensor iou = pairwise_iou(test::random_boxes(7, 100, 11), test::random_boxes(150, 100, 12));
  for (const bool low_quality : {false, true}) {
    const MatcherOptions options{.allow_low_quality = low_quality};
    const Matches expected = naive_match(iou, options);
    const Matches actual = Matcher(options).match(iou);
    EXPECT_TRUE(expect_close(actual.labels, expected.labels, {}));
    EXPECT_TRUE(expect_close(actual.gt_index, expected.gt_index, {}));
  }
}

TEST(MatcherProperty, BoxesMatchAsTheirIouMatrixDoes) {
  const Tensor boxes = test::random_boxes(1500, 300, 22);
  Tensor gt = torch::cat({test::random_boxes(40, 300, 21), boxes.slice(0, 700, 701)});
  gt[5] = gt[4];                                            // ties between ground truths
  gt[7] = torch::tensor({900.0F, 900.0F, 950.0F, 950.0F});  // overlaps nothing
  for (const bool low_quality : {false, true}) {
    for (const bool without_overlap : {false, true}) {
      for (const auto& [objects, count] : {std::pair{41, 1500}, {7, 512}, {1, 513}, {41, 3}}) {
        const Matcher matcher(
            {.allow_low_quality = low_quality, .match_without_overlap = without_overlap});
        const Tensor some_gt = gt.slice(0, 0, objects), some = boxes.slice(0, 0, count);
        const Matches expected = matcher.match(pairwise_iou(some_gt, some));
        const Matches actual = matcher.match_boxes(some_gt, some);
        EXPECT_TRUE(torch::equal(actual.labels, expected.labels)) << objects << " " << count;
        EXPECT_TRUE(torch::equal(actual.gt_index, expected.gt_index)) << objects << " " << count;
      }
    }
  }
}

TEST(MatcherParity, EqualsDetectron2) {
  const auto cases =
      test::parity_cases([](const nlohmann::json& d) { return d.value("what", "") == "Matcher"; });
  ASSERT_FALSE(cases.empty());
  for (const auto& parity_case : cases) {
    const test::Npz arrays = test::read_npz(parity_case.folder / "matcher.npz");
    const Tensor quality = test::to_tensor(arrays.at("quality"));
    const auto expect_equal = [&](const std::string& name, const Matches& matches) {
      EXPECT_TRUE(expect_close(matches.gt_index, test::to_tensor(arrays.at(name + "/matches")), {}))
          << name;
      EXPECT_TRUE(expect_close(matches.labels, test::to_tensor(arrays.at(name + "/labels")), {}))
          << name;
    };
    for (const auto& [name, variant] : parity_case.description.at("variants").items()) {
      expect_equal(name, Matcher({.iou_thresholds = variant.at("thresholds"),
                                  .labels = variant.at("labels"),
                                  .allow_low_quality = variant.at("allow_low_quality_matches"),
                                  .match_without_overlap = true})
                             .match(quality));
    }
    expect_equal("empty", Matcher({}).match(torch::zeros({0, 7})));
  }
}

}  // namespace
}  // namespace detforge
