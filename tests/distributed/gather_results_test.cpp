#include "detforge/eval/gather_results.h"

#include <thread>

#include <gtest/gtest.h>

#include "detforge/core/error.h"
#include "distributed/ranks.h"

namespace detforge {
namespace {

/// Many detections with masks, all different.
InferenceResult results_of(std::int64_t rank, std::int64_t count) {
  InferenceResult result;
  for (std::int64_t i = 0; i < count; ++i) {
    result.detections.push_back({.image_id = 1000 * rank + i / 100,
                                 .category_id = i % 7,
                                 .x = 0.1 * static_cast<double>(i),
                                 .y = 2,
                                 .width = 3,
                                 .height = 4,
                                 .score = 1 / static_cast<double>(i + 1)});
    result.masks.emplace_back([&](std::vector<std::uint32_t>& counts) {
      counts.insert(counts.end(), {static_cast<std::uint32_t>(i), 5, 100});
      return ImageSize{.height = 21, .width = 5 + i};
    });
  }
  result.image_ids = {1000 * rank, 1000 * rank + 1};
  result.dropped = rank;
  result.total_s = static_cast<double>(rank);
  return result;
}

void expect_same(const InferenceResult& a, const InferenceResult& b, std::size_t offset) {
  for (std::size_t i = 0; i < b.detections.size(); ++i) {
    const EvalDetection &left = a.detections[offset + i], &right = b.detections[i];
    ASSERT_EQ(left.image_id, right.image_id);
    ASSERT_EQ(left.category_id, right.category_id);
    ASSERT_EQ(left.x, right.x);
    ASSERT_EQ(left.score, right.score);
    ASSERT_EQ(a.masks[offset + i].size.width, b.masks[i].size.width);
    ASSERT_EQ(a.masks[offset + i].counts[0], b.masks[i].counts[0]);
  }
}

TEST(GatherResults, BytesAndBack) {
  const InferenceResult result = results_of(3, 500);
  const std::string bytes = to_bytes(result);
  const InferenceResult back = inference_result(bytes);
  ASSERT_EQ(back.detections.size(), 500U);
  expect_same(back, result, 0);
  EXPECT_EQ(back.image_ids, result.image_ids);
  EXPECT_EQ(back.dropped, 3);
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{7}, bytes.size() / 2, bytes.size() - 1}) {
    EXPECT_THROW(inference_result(bytes.substr(0, size)), Error) << size;
  }
}

// Megabytes of results, one rank far slower than the deadline, one without images.
TEST(FieldReportF56, LargeResultsOfASlowRankArrive) {
  test::Ranks ranks(3);
  ranks.timeout = std::chrono::milliseconds(1000);
  EXPECT_EQ(ranks.run([](Communicator& communicator) {
    communicator.enter("evaluation", -1);
    if (communicator.rank() == 1) {
      for (int image = 0; image < 12; ++image) {
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        communicator.progress();
      }
    }
    constexpr std::int64_t kMany = 50'000;
    communicator.barrier();
    const InferenceResult all = gather_results(
        communicator,
        communicator.rank() == 2 ? InferenceResult{} : results_of(communicator.rank(), kMany));
    if (communicator.rank() > 0) {
      EXPECT_TRUE(all.detections.empty());
      return;
    }
    ASSERT_EQ(all.detections.size(), static_cast<std::size_t>(2 * kMany));
    expect_same(all, results_of(0, kMany), 0);
    expect_same(all, results_of(1, kMany), static_cast<std::size_t>(kMany));
    EXPECT_EQ(all.image_ids, (std::vector<std::int64_t>{0, 1, 1000, 1001}));
  }),
            0)
      << ranks.log(1) << ranks.log(2);
}

}  // namespace
}  // namespace detforge
