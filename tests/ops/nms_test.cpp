#include "detforge/ops/nms.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "detforge/core/error.h"
#include "detforge/core/rng.h"
#include "detforge/ops/cpu/nms_kernel.h"
#include "support/test_data.h"
#include "support/torch/naive_ops.h"
#include "support/torch/tensors.h"

namespace detforge {
namespace {

std::vector<std::int64_t> to_vector(const Tensor& tensor) {
  return {tensor.data_ptr<std::int64_t>(), tensor.data_ptr<std::int64_t>() + tensor.numel()};
}

Tensor box_rows(const std::vector<std::array<float, 4>>& rows) {
  Tensor boxes = torch::empty({static_cast<std::int64_t>(rows.size()), 4});
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::copy(rows[i].begin(), rows[i].end(), boxes.data_ptr<float>() + i * 4);
  }
  return boxes;
}

/// Boxes of 4..100 pixels around `clusters` centres in 800x1344, coordinates rounded to `grid` so
/// that equal boxes and exactly equal overlaps occur; scores with many ties.
struct Candidates {
  Tensor boxes, scores, groups;
};
Candidates random_candidates(std::uint64_t seed,
                             std::int64_t count,
                             std::uint64_t clusters,
                             double grid) {
  Rng rng(seed, RngPurpose::kTest);
  std::vector<std::array<double, 2>> centres(clusters);
  for (auto& centre : centres) {
    centre = {rng.uniform(0, 1344), rng.uniform(0, 800)};
  }
  Candidates made{torch::empty({count, 4}), torch::empty({count}),
                  torch::empty({count}, torch::kLong)};
  float* box = made.boxes.data_ptr<float>();
  for (std::int64_t i = 0; i < count; ++i, box += 4) {
    const auto& centre = centres[rng.below(clusters)];
    const double x = centre[0] + rng.uniform(-20, 20), y = centre[1] + rng.uniform(-20, 20);
    const double w = rng.uniform(4, 100), h = rng.uniform(4, 100);
    const std::array<double, 4> corners{x - w / 2, y - h / 2, x + w / 2, y + h / 2};
    for (std::size_t c = 0; c < 4; ++c) {
      box[c] = static_cast<float>(grid > 0 ? std::round(corners[c] / grid) * grid : corners[c]);
    }
    made.scores.data_ptr<float>()[i] = static_cast<float>(rng.below(50)) / 10.0F - 2.0F;
    made.groups.data_ptr<std::int64_t>()[i] =
        static_cast<std::int64_t>(rng.below(3)) * 1'000'000'007 - 5;
  }
  return made;
}

TEST(Nms, DropsOverlapAboveThresholdByHand) {
  // Boxes 0 and 1 share 8x10 of 10x10 + 10x10: IoU 80 / 120 = 0.667. Box 2 touches box 0 only.
  const Tensor boxes = box_rows({{0, 0, 10, 10}, {2, 0, 12, 10}, {-10, 0, 0, 10}});
  const Tensor scores = torch::tensor({0.8F, 0.9F, 0.1F});
  EXPECT_EQ(to_vector(nms(boxes, scores, 0.66)), (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(to_vector(nms(boxes, scores, 0.67)), (std::vector<std::int64_t>{1, 0, 2}));
}

TEST(Nms, KeepsBoxesAtExactlyTheThreshold) {
  // IoU is exactly 50 / 100; it is not above 0.5.
  const Tensor boxes = box_rows({{0, 0, 10, 10}, {0, 0, 10, 5}});
  EXPECT_EQ(nms(boxes, torch::tensor({0.9F, 0.8F}), 0.5).numel(), 2);
}

TEST(Nms, TiesKeepInputOrder) {
  const Tensor boxes = box_rows({{0, 0, 5, 5}, {20, 0, 25, 5}, {0, 0, 5, 5}, {40, 0, 45, 5}});
  const Tensor scores = torch::tensor({0.0F, -0.0F, 0.0F, 0.5F});
  EXPECT_EQ(to_vector(nms(boxes, scores, 0.5)), (std::vector<std::int64_t>{3, 0, 1}));
}

TEST(Nms, EmptyInputGivesEmptyResult) {
  const Tensor kept = nms(torch::empty({0, 4}), torch::empty({0}), 0.5);
  EXPECT_EQ(kept.sizes(), std::vector<std::int64_t>{0});
  EXPECT_EQ(kept.scalar_type(), torch::kLong);
  EXPECT_EQ(
      batched_nms(torch::empty({0, 4}), torch::empty({0}), torch::empty({0}, torch::kLong), 0.5)
          .numel(),
      0);
}

TEST(Nms, EmptyAndInvertedBoxesOverlapNothing) {
  const Tensor boxes =
      box_rows({{5, 5, 5, 5}, {5, 5, 5, 5}, {0, 0, 10, 10}, {8, 8, 2, 2}, {3, 0, 3, 10}});
  for (const double threshold : {0.0, 0.5, 1.0}) {
    EXPECT_EQ(nms(boxes, torch::ones({5}), threshold).numel(), 5) << threshold;
  }
}

TEST(Nms, HugeBoxesDoNotOverflowIntoSuppression) {
  // Areas are infinite in f32, so IoU is undefined: nothing is suppressed, as in torchvision.
  const Tensor boxes =
      box_rows({{-3e38F, -3e38F, 3e38F, 3e38F}, {-3e38F, -3e38F, 3e38F, 3e38F}, {0, 0, 1, 1}});
  EXPECT_EQ(nms(boxes, torch::ones({3}), 0.5).numel(), 3);
}

TEST(Nms, HalfBoxesAreComparedInFloat) {
  // 3000-pixel areas overflow f16; FIELD_REPORTS F35.
  const Tensor boxes =
      box_rows({{0, 0, 3000, 3000}, {100, 0, 3100, 3000}, {3000, 3000, 4000, 4000}});
  const Tensor scores = torch::tensor({0.9F, 0.8F, 0.7F});
  EXPECT_EQ(to_vector(nms(boxes.to(torch::kHalf), scores.to(torch::kHalf), 0.5)),
            to_vector(nms(boxes, scores, 0.5)));
}

TEST(Nms, InfiniteScoresSortFirstAndLast) {
  const Tensor boxes = box_rows({{0, 0, 5, 5}, {20, 0, 25, 5}, {40, 0, 45, 5}});
  const Tensor scores = torch::tensor({-INFINITY, INFINITY, 0.0F});
  EXPECT_EQ(to_vector(nms(boxes, scores, 0.5)), (std::vector<std::int64_t>{1, 2, 0}));
}

TEST(Nms, RefusesWhatItCannotOrder) {
  const Tensor boxes = box_rows({{0, 0, 5, 5}, {0, 0, 5, 5}});
  EXPECT_THROW(nms(boxes, torch::tensor({0.5F, NAN}), 0.5), Error);
  EXPECT_THROW(nms(box_rows({{0, 0, 5, NAN}}), torch::ones({1}), 0.5), Error);
  EXPECT_THROW(nms(box_rows({{0, 0, INFINITY, 5}}), torch::ones({1}), 0.5), Error);
  EXPECT_THROW(nms(boxes, torch::ones({3}), 0.5), Error);
  EXPECT_THROW(nms(torch::ones({2, 5}), torch::ones({2}), 0.5), Error);
  EXPECT_THROW(nms(boxes, torch::ones({2}), 1.5), Error);
  EXPECT_THROW(nms(boxes, torch::ones({2}), NAN), Error);
  EXPECT_THROW(batched_nms(boxes, torch::ones({2}), torch::ones({2}), 0.5), Error);
}

TEST(BatchedNms, GroupsDoNotSuppressEachOther) {
  const Tensor boxes = box_rows({{0, 0, 10, 10}, {0, 0, 10, 10}, {0, 0, 10, 10}});
  const Tensor groups = torch::tensor({7, -7, 7}, torch::kLong);
  EXPECT_EQ(to_vector(batched_nms(boxes, torch::tensor({0.1F, 0.2F, 0.3F}), groups, 0.5)),
            (std::vector<std::int64_t>{2, 1}));
}

TEST(BatchedNms, MaxKeepIsAPrefixOfTheFullResult) {
  const Candidates c = random_candidates(11, 500, 40, 0);
  const std::vector<std::int64_t> all = to_vector(batched_nms(c.boxes, c.scores, c.groups, 0.5));
  for (const std::int64_t limit :
       {std::int64_t{0}, std::int64_t{1}, std::int64_t{37}, std::int64_t{5000}}) {
    const auto some = to_vector(batched_nms(c.boxes, c.scores, c.groups, 0.5, limit));
    EXPECT_EQ(some, std::vector<std::int64_t>(
                        all.begin(), all.begin() + std::min<std::int64_t>(limit, std::ssize(all))));
  }
}

TEST(NmsProperty, EqualsNaiveLoopsInBothBuilds) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    const double grid = seed % 3 == 0 ? 10.0 : 0.0;  // coarse: many IoUs exactly at the thresholds
    const Candidates c =
        random_candidates(seed, static_cast<std::int64_t>(1 + seed * 17 % 300), 1 + seed % 9, grid);
    for (const double threshold : {0.0, 1.0 / 3, 0.5, 0.7, 1.0}) {
      const auto expected = test::naive_nms(c.boxes, c.scores, c.groups, threshold);
      const auto n = static_cast<std::size_t>(c.scores.numel());
      const cpu::NmsInput input{c.boxes.data_ptr<float>(),
                                {c.scores.data_ptr<float>(), n},
                                {c.groups.data_ptr<std::int64_t>(), n}};
      EXPECT_EQ(cpu::nms(input, threshold, -1, cpu::KernelBuild::kPortable), expected)
          << "seed " << seed;
      EXPECT_EQ(cpu::nms(input, threshold, -1, cpu::best_kernel_build()), expected)
          << "seed " << seed;
      EXPECT_EQ(to_vector(nms(c.boxes, c.scores, threshold)),
                test::naive_nms(c.boxes, c.scores, {}, threshold));
    }
  }
}

TEST(NmsProperty, OfItsOwnOutputKeepsEverything) {
  const Candidates c = random_candidates(5, 400, 10, 0);
  const Tensor kept = nms(c.boxes, c.scores, 0.5);
  EXPECT_EQ(nms(c.boxes.index_select(0, kept), c.scores.index_select(0, kept), 0.5).numel(),
            kept.numel());
  EXPECT_LT(kept.numel(), 400);
}

TEST(NmsParity, KeepsWhatDetectron2Keeps) {
  const auto cases =
      test::parity_cases([](const nlohmann::json& d) { return d.value("case", "") == "unit_nms"; });
  std::size_t compared = 0;
  for (const auto& parity : cases) {
    const test::Npz arrays = test::read_npz(parity.folder / "nms.npz");
    for (const auto& [name, array] : arrays) {
      if (!name.ends_with("/boxes")) {
        continue;
      }
      const std::string set = name.substr(0, name.size() - 5);
      const double threshold = arrays.at(set + "threshold").to_double()[0];
      const Tensor kept =
          batched_nms(test::to_tensor(array), test::to_tensor(arrays.at(set + "scores")),
                      test::to_tensor(arrays.at(set + "classes")), threshold);
      EXPECT_EQ(to_vector(kept), arrays.at(set + "keep").to_i64()) << parity.name() << " " << set;
      ++compared;
    }
  }
  EXPECT_GT(compared, 0U);
}

}  // namespace
}  // namespace detforge
