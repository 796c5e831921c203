#include "detforge/core/rng.h"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

namespace detforge {
namespace {

TEST(Rng, SameKeyGivesSameStreamAndEveryPartOfTheKeyMatters) {
  Rng a(7, RngPurpose::kAugment, 3, 11), b(7, RngPurpose::kAugment, 3, 11);
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(a.next_u64(), b.next_u64());
  }
  std::set<std::uint64_t> firsts;
  for (std::uint64_t seed : {7, 8}) {
    for (auto purpose : {RngPurpose::kAugment, RngPurpose::kShuffle}) {
      for (std::uint64_t epoch : {0, 1}) {
        for (std::uint64_t sample : {0, 1}) {
          firsts.insert(Rng(seed, purpose, epoch, sample).next_u64());
        }
      }
    }
  }
  EXPECT_EQ(firsts.size(), 16u);
}

TEST(Rng, UniformHasTheMomentsOfAUniformDistribution) {
  Rng rng(1, RngPurpose::kTest);
  constexpr int kDraws = 200000;
  double sum = 0, squares = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double x = rng.uniform();
    ASSERT_GE(x, 0.0);
    ASSERT_LT(x, 1.0);
    sum += x;
    squares += x * x;
  }
  // The standard error of the mean is 0.2887 / sqrt(200000) = 0.00065; 5 of them are allowed.
  EXPECT_NEAR(sum / kDraws, 0.5, 0.0033);
  EXPECT_NEAR(squares / kDraws, 1.0 / 3.0, 0.0034);
}

TEST(Rng, NormalHasZeroMeanAndUnitVariance) {
  Rng rng(2, RngPurpose::kTest);
  constexpr int kDraws = 200000;
  double sum = 0, squares = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double x = rng.normal();
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / kDraws, 0.0, 0.0112);     // 5 / sqrt(200000)
  EXPECT_NEAR(squares / kDraws, 1.0, 0.016);  // 5 * sqrt(2 / 200000)
}

TEST(Rng, BelowReachesEveryValueEquallyOften) {
  Rng rng(3, RngPurpose::kTest);
  std::vector<int> count(6, 0);
  for (int i = 0; i < 60000; ++i) {
    ++count[rng.below(6)];
  }
  for (const int c : count) {
    EXPECT_NEAR(c, 10000, 457);  // 5 * sqrt(60000 * 1/6 * 5/6)
  }
}

TEST(Rng, PermutationHoldsEveryIndexOnce) {
  auto order = Rng(4, RngPurpose::kShuffle, 0).permutation(1000);
  EXPECT_FALSE(std::is_sorted(order.begin(), order.end()));
  std::sort(order.begin(), order.end());
  for (std::int64_t i = 0; i < 1000; ++i) {
    ASSERT_EQ(order[static_cast<std::size_t>(i)], i);
  }
}

// Runs must be repeatable with a later DetForge: these numbers may only change on purpose.
TEST(Rng, StreamIsPinned) {
  EXPECT_EQ(Rng(1234, RngPurpose::kAugment, 5, 6).next_u64(), 12575974332115311747ULL);
}

}  // namespace
}  // namespace detforge
