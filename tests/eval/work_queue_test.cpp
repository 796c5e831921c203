#include "detforge/eval/work_queue.h"

#include <atomic>
#include <stdexcept>
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

TEST(WorkQueue, AnExceptionReachesTheCallerAndEndsTheWork) {
  std::atomic<int> done = 0;
  EXPECT_THROW(run_in_threads(1, 1000,
                              [&](WorkQueue& queue) {
                                while (const auto item = queue.next()) {
                                  if (*item == 3) {
                                    throw std::runtime_error("broken");
                                  }
                                  ++done;
                                }
                              }),
               std::runtime_error);
  EXPECT_EQ(done, 3);
  EXPECT_THROW(run_in_threads(4, 1000,
                              [&](WorkQueue& queue) {
                                while (queue.next()) {
                                  throw std::runtime_error("broken");
                                }
                              }),
               std::runtime_error);
}

}  // namespace
}  // namespace detforge
