#include "detforge/core/allocator.h"

#include <cstring>
#include <memory>
#include <thread>

#include <gtest/gtest.h>

namespace detforge {
namespace {

constexpr std::size_t kBlock = 96U << 20;

void touch_block() {
  const std::unique_ptr<char[]> block(new char[kBlock]);
  std::memset(block.get(), 1, kBlock);
  asm volatile(""
               :
               : "r"(block.get())
               : "memory");  // or the compiler drops block and writes together
}

TEST(Allocator, PeakRssCoversWhatWasTouched) {
  const std::int64_t before = current_rss_bytes();
  EXPECT_GT(before, 0);
  touch_block();
  // The kernel counts pages per thread and adds them up late: allow 2 MB.
  EXPECT_GE(peak_rss_bytes() + (2 << 20), before + static_cast<std::int64_t>(kBlock));
  EXPECT_GE(peak_rss_bytes() + (2 << 20), current_rss_bytes());
}

#ifdef __GLIBC__
TEST(Allocator, MallocThatServesTensorsKeepsLargeBlocks) {
  configure_malloc(TensorSource::kMalloc);
  touch_block();
  const std::int64_t kept = current_rss_bytes();
  touch_block();
  // The second block reuses the first one's pages: resident memory neither fell nor grew by a
  // block.
  EXPECT_GE(kept, static_cast<std::int64_t>(kBlock));
  EXPECT_LT(current_rss_bytes(), kept + static_cast<std::int64_t>(kBlock) / 2);
}

TEST(Allocator, LargeBlocksOfOtherThreadsStillWork) {
  configure_malloc(TensorSource::kMalloc);
  std::thread(touch_block)
      .join();  // thread arenas hold 64 MB at most: malloc must fall back to the main one
}
#endif

}  // namespace
}  // namespace detforge
