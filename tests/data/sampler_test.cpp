#include "detforge/data/sampler.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include <gtest/gtest.h>

#include "data/coco_files.h"

namespace detforge {
namespace {

using test::error_of;

std::vector<Draw> take(BatchSampler& sampler, int batches) {
  std::vector<Draw> all;
  for (int i = 0; i < batches; ++i) {
    for (const Draw& draw : sampler.next()) {
      all.push_back(draw);
    }
  }
  return all;
}

TEST(TrainingOrder, IsAPermutationThatChangesWithEpochAndSeed) {
  std::vector<std::int64_t> order = training_order(100, 7, 0);
  EXPECT_EQ(order, training_order(100, 7, 0));
  EXPECT_NE(order, training_order(100, 7, 1));
  EXPECT_NE(order, training_order(100, 8, 0));
  std::sort(order.begin(), order.end());
  std::vector<std::int64_t> all(100);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(order, all);
}

// 4 images; class 0 in all: f = 1, r = max(1, sqrt(0.5/1)) = 1. Class 1 in one: f = 1/4, r =
// sqrt(2).
TEST(RepeatFactors, ByHand) {
  const std::vector<double> factors = repeat_factors_from_category_frequency(
      {
          {0, 0},
          {0, 1, 1},
          {0},
          {0},
      },
      0.5);
  EXPECT_EQ(factors, (std::vector<double>{1, std::sqrt(0.5 / 0.25), 1, 1}));
  EXPECT_EQ(repeat_factors_from_category_frequency({{}, {0}}, 0.1), (std::vector<double>{1, 1}));
}

TEST(RepeatFactors, RoundStochasticallyPerEpoch) {
  const std::vector<double> factors{1, 2.25, 1.5};
  double second = 0, third = 0;
  constexpr int kEpochs = 4000;
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    const std::vector<std::int64_t> order = repeat_factor_order(factors, 3, epoch);
    EXPECT_EQ(std::count(order.begin(), order.end(), 0), 1);
    second += static_cast<double>(std::count(order.begin(), order.end(), 1));
    third += static_cast<double>(std::count(order.begin(), order.end(), 2));
  }
  // Standard error of a mean of 4000 coin flips is below 0.008.
  EXPECT_NEAR(second / kEpochs, 2.25, 0.04);
  EXPECT_NEAR(third / kEpochs, 1.5, 0.04);
}

TEST(InferenceShard, CoversAllExactlyOnce) {
  for (const std::int64_t size : {0, 1, 7, 8, 9, 100}) {
    for (const std::int64_t world : {1, 2, 8}) {
      std::int64_t next = 0;
      for (std::int64_t rank = 0; rank < world; ++rank) {
        const IndexRange range = inference_shard(size, rank, world);
        EXPECT_EQ(range.begin, next);
        EXPECT_LE(range.end - range.begin, size / world + 1);
        next = range.end;
      }
      EXPECT_EQ(next, size);
    }
  }
}

TEST(BatchSampler, RanksShareOneStreamWithoutRepeatsOrGaps) {
  constexpr std::int64_t kSize = 24, kBatch = 8;
  for (const std::int64_t world : {1, 2, 3, 8}) {
    std::map<std::int64_t, std::set<std::int64_t>> seen;  // epoch -> images
    std::vector<std::int64_t> stream(2 * kSize);
    for (std::int64_t rank = 0; rank < world; ++rank) {
      BatchSampler sampler(
          {.size = kSize, .batch_size = kBatch, .seed = 5, .rank = rank, .world_size = world});
      for (const Draw& draw : take(sampler, static_cast<int>(2 * kSize / kBatch))) {
        EXPECT_TRUE(seen[draw.epoch].insert(draw.index).second);
        stream[static_cast<std::size_t>(draw.epoch * kSize + draw.position)] = draw.index;
      }
    }
    EXPECT_EQ(seen.size(), 2u);
    EXPECT_EQ(seen[0].size(), static_cast<std::size_t>(kSize));
    EXPECT_EQ(seen[1].size(), static_cast<std::size_t>(kSize));
    const std::vector<std::int64_t> first(stream.begin(), stream.begin() + kSize);
    EXPECT_EQ(first, training_order(kSize, 5, 0));  // the same stream for every world size
  }
}

TEST(BatchSampler, AnyNumberOfRanksHasTheSameSteps) {
  const std::vector<bool> wide{true, false, true, true, false, false, true, false, true};
  BatchSampler whole({.size = 9, .batch_size = 5, .seed = 3, .is_wide = wide});
  for (int step = 0; step < 12; ++step) {
    const std::string place = whole.to_json(whole.state());
    const std::vector<Draw> batch = whole.next();
    for (const std::int64_t world : {1, 2, 3, 5}) {
      std::vector<Draw> together(batch.size());
      for (std::int64_t rank = 0; rank < world; ++rank) {
        BatchSampler part({.size = 9,
                           .batch_size = 5,
                           .seed = 3,
                           .rank = rank,
                           .world_size = world,
                           .is_wide = wide});
        part.restore(part.from_json(place));  // of another world size
        const std::vector<Draw> own = part.next();
        EXPECT_FALSE(own.empty());
        for (std::size_t i = 0; i < own.size(); ++i) {
          together.at(static_cast<std::size_t>(rank) + i * static_cast<std::size_t>(world)) =
              own[i];
        }
        EXPECT_EQ(part.to_json(part.state()), whole.to_json(whole.state()));
      }
      EXPECT_EQ(together, batch) << "step " << step << ", " << world << " ranks";
    }
  }
  EXPECT_NE(error_of([] { BatchSampler({.size = 9, .batch_size = 2, .world_size = 3}); })
                .find("cannot be shared by 3 ranks"),
            std::string::npos);
}

TEST(BatchSampler, GroupsByAspectRatioWithoutLosingImages) {
  std::vector<bool> is_wide;
  for (int i = 0; i < 30; ++i) {
    is_wide.push_back(i % 3 == 0);
  }
  BatchSampler sampler({.size = 30, .batch_size = 4, .seed = 1, .is_wide = is_wide});
  std::map<std::int64_t, std::set<std::int64_t>> seen;
  for (int i = 0; i < 40; ++i) {
    const std::vector<Draw> batch = sampler.next();
    ASSERT_EQ(batch.size(), 4u);
    for (const Draw& draw : batch) {
      EXPECT_EQ(is_wide[static_cast<std::size_t>(draw.index)],
                is_wide[static_cast<std::size_t>(batch[0].index)]);
      EXPECT_TRUE(seen[draw.epoch].insert(draw.index).second);
    }
  }
  EXPECT_EQ(seen[0].size(), 30u);
  EXPECT_EQ(seen[1].size(), 30u);
}

TEST(BatchSampler, RestoreContinuesExactly) {
  const BatchSampler::Options options{
      .size = 11,
      .batch_size = 3,
      .seed = 2,
      .rank = 1,
      .world_size = 2,
      .repeat_factors = std::vector<double>(11, 1.3),
      .is_wide = {true, false, true, true, false, false, true, false, true, false, true}};
  for (int before = 0; before < 12; ++before) {
    BatchSampler straight(options), resumed(options);
    take(straight, before);
    const std::string state = straight.to_json(straight.state());
    resumed.restore(resumed.from_json(state));
    EXPECT_EQ(take(straight, 20), take(resumed, 20)) << "after " << before;
  }
}

TEST(BatchSampler, RefusesAStateOfOtherSettings) {
  BatchSampler sampler({.size = 6, .batch_size = 2}), other({.size = 5, .batch_size = 2});
  const std::string error = error_of([&] { other.from_json(sampler.to_json(sampler.state())); });
  EXPECT_NE(error.find("images 6, this run has 5"), std::string::npos) << error;
  EXPECT_NE(error_of([&] { other.from_json("{\"x\""); }), "");
  EXPECT_NE(error_of([] { BatchSampler({.size = 0}); }).find("no images"), std::string::npos);
}

/// What from_json() says about the state after three batches with `value` (JSON text) for `key`.
std::string refusal(const BatchSampler::Options& options,
                    const std::string& key,
                    const std::string& value) {
  BatchSampler sampler(options);
  take(sampler, 3);
  test::Json json = test::Json::parse(sampler.to_json(sampler.state()));
  json[key] = test::Json::parse(value);
  return error_of([&] { sampler.restore(sampler.from_json(json.dump())); });
}

TEST(BatchSampler, RefusesADamagedStateInsteadOfReadingOutOfBounds) {
  const BatchSampler::Options plain{.size = 5,
                                    .batch_size = 3,
                                    .seed = 2,
                                    .rank = 1,
                                    .world_size = 2,
                                    .is_wide = {true, false, true, false, true}};
  BatchSampler::Options repeated = plain;
  repeated.repeat_factors = {1, 1.5, 2, 1, 3};
  const std::vector<std::pair<std::string, std::string>> damages{
      {"epoch_begin", "1000"},
      {"epoch_begin", "-1"},
      {"epoch_begin", "0"},
      {"epoch_begin", "1e300"},
      {"drawn", "-1"},
      {"drawn", "0"},
      {"drawn", "1000"},
      {"drawn", "4000000000000000000"},
      {"epoch", "-1"},
      {"epoch", "4611686018427387904"},
      {"buckets", "[[]]"},
      {"buckets", "[[[9, 0, 0]], []]"},
      {"buckets", "[[[-1, 0, 0]], []]"},
      {"buckets", "[[[0, 0]], []]"},
      {"buckets", "[[[0, 0, -4]], []]"},
      {"buckets", "[[[0, 99, 0]], []]"},
      {"buckets", "[[[1, 0, 0]], []]"},                        // image 1 is not wide
      {"buckets", "[[[0, 0, 0], [2, 0, 1], [4, 0, 2]], []]"},  // a whole batch
  };
  for (const BatchSampler::Options& options : {plain, repeated}) {
    EXPECT_EQ(refusal(options, "buckets", "[[[2, 0, 1]], [[3, 0, 0]]]"), "");
    for (const auto& [key, value] : damages) {
      EXPECT_NE(refusal(options, key, value).find("the saved place in the data"), std::string::npos)
          << key << " " << value << (options.repeat_factors.empty() ? "" : ", repeat factors");
    }
  }
}

}  // namespace
}  // namespace detforge
