#include "detforge/eval/work_queue.h"

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace detforge {
namespace {

TEST(WorkQueue, EveryItemIsDoneOnceByAnyNumberOfThreads) {
  for (const int threads : {0, 1, 3, 50}) {
    std::vector<std::atomic<int>> done(20);
    run_in_threads(threads, done.size(), [&](WorkQueue& queue) {
      while (const auto item = queue.next()) {
        ++done[*item];
      }
    });
    for (const auto& times : done) {
      ASSERT_EQ(times, 1) << threads;
    }
  }
}

TEST(WorkQueue, NoItemsAreFine) {
  run_in_threads(4, 0, [](WorkQueue& queue) { EXPECT_FALSE(queue.next().has_value()); });
}

TEST(WorkQueue, AnExceptionReachesTheCaller) {
  std::atomic<int> done = 0;
  const auto fail_at_3 = [&](WorkQueue& queue) {
    while (const auto item = queue.next()) {
      if (*item == 3) {
        throw std::runtime_error("broken");
      }
      ++done;
    }
  };
  EXPECT_THROW(run_in_threads(1, 1000, fail_at_3), std::runtime_error);
  EXPECT_EQ(done, 3);
  EXPECT_THROW(run_in_threads(4, 1000, fail_at_3), std::runtime_error);
}

// One thread fails at once; the other would need 3 s for the rest.
TEST(WorkQueue, AnExceptionEndsTheWorkOfTheOthers) {
  constexpr std::size_t kItems = 3000;
  std::atomic<std::size_t> done = 0;
  const auto work = [&](WorkQueue& queue) {
    while (const auto item = queue.next()) {
      if (*item == 0) {
        throw std::runtime_error("broken");
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      ++done;
    }
  };
  EXPECT_THROW(run_in_threads(2, kItems, work), std::runtime_error);
  EXPECT_LT(done, kItems - 1);
}

}  // namespace
}  // namespace detforge
