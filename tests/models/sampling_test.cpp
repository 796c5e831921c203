#include "detforge/models/sampling.h"

#include <set>

#include <gtest/gtest.h>
#include <torch/types.h>

#include "detforge/core/error.h"
#include "support/torch/tensors.h"

namespace detforge {
namespace {

using test::expect_close;

// `positives` labels 1, then `negatives` labels 0, then `ignored` labels -1.
Tensor labels_with(std::int64_t positives, std::int64_t negatives, std::int64_t ignored) {
  const auto block = [](std::int64_t count, std::int64_t label) {
    return torch::full({count}, label, torch::kLong);
  };
  return torch::cat({block(positives, 1), block(negatives, 0), block(ignored, -1)});
}

TEST(Sampling, TakesEverythingThatFitsInOrder) {
  const SampledIndices s = subsample_labels(labels_with(2, 3, 4), {.batch_size = 100}, Rng(1));
  EXPECT_TRUE(expect_close(s.positive, torch::arange(0, 2), {}));
  EXPECT_TRUE(expect_close(s.negative, torch::arange(2, 5), {}));
}

TEST(Sampling, LimitsPositivesToTheirFraction) {
  const SampledIndices s = subsample_labels(labels_with(50, 50, 0),
                                            {.batch_size = 20, .positive_fraction = 0.25}, Rng(1));
  EXPECT_EQ(s.positive.numel(), 5);
  EXPECT_EQ(s.negative.numel(), 15);
}

TEST(Sampling, FillsUpWithNegatives) {
  const SampledIndices s = subsample_labels(labels_with(2, 50, 0), {.batch_size = 20}, Rng(1));
  EXPECT_EQ(s.positive.numel(), 2);
  EXPECT_EQ(s.negative.numel(), 18);
}

TEST(Sampling, TooFewNegativesAreNotReplacedByPositives) {
  const SampledIndices s = subsample_labels(labels_with(50, 1, 9), {.batch_size = 20}, Rng(1));
  EXPECT_EQ(s.positive.numel(), 10);
  EXPECT_EQ(s.negative.numel(), 1);
}

TEST(Sampling, AnyOtherLabelThanBackgroundIsPositive) {
  const Tensor labels = torch::tensor(std::vector<std::int64_t>{0, 5, 80, -1}, torch::kLong);
  const SampledIndices s =
      subsample_labels(labels, {.batch_size = 8, .negative_label = 80}, Rng(1));
  EXPECT_TRUE(expect_close(s.positive, torch::arange(0, 2), {}));
  EXPECT_TRUE(expect_close(s.negative, torch::arange(2, 3), {}));
}

TEST(Sampling, WorksWithoutLabels) {
  const SampledIndices s = subsample_labels(labels_with(0, 0, 0), {}, Rng(1));
  EXPECT_EQ(s.positive.numel() + s.negative.numel(), 0);
}

TEST(Sampling, RefusesNegativeBatchSize) {
  EXPECT_THROW(subsample_labels(labels_with(1, 1, 0), {.batch_size = -1}, Rng(1)), Error);
}

TEST(SamplingProperty, SameKeySameChoiceOtherKeyOtherChoice) {
  const Tensor labels = labels_with(100, 1000, 10);
  const auto sample = [&](std::uint64_t key) {
    return subsample_labels(labels, {.batch_size = 64}, Rng(key));
  };
  EXPECT_TRUE(sample(7).negative.equal(sample(7).negative));
  EXPECT_FALSE(sample(7).negative.equal(sample(8).negative));
}

TEST(SamplingProperty, EveryNegativeIsEquallyLikely) {
  // 4000 draws of 5 from 50: each item is expected 400 times, standard deviation 19
  std::vector<int> counts(50, 0);
  for (std::uint64_t key = 0; key < 4000; ++key) {
    const SampledIndices s =
        subsample_labels(labels_with(0, 50, 0), {.batch_size = 5}, Rng(mix64(key, 1)));
    for (std::int64_t i = 0; i < s.negative.numel(); ++i) {
      ++counts[static_cast<std::size_t>(s.negative[i].item<std::int64_t>())];
    }
  }
  for (const int count : counts) {
    EXPECT_NEAR(count, 400, 95);  // five standard deviations
  }
}

}  // namespace
}  // namespace detforge
