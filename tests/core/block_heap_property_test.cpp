// Random programs against a heap that a reader can check: which bytes belong to whom, and which
// pages were handed out.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "detforge/core/block_heap.h"

namespace detforge {
namespace {

constexpr std::size_t kGranule = BlockHeap::kGranule;
const double kMostOfPeak = 1 + BlockHeapOptions().slack;
constexpr std::size_t kPage = ReservedMemory::kPage;

struct Owned {
  std::size_t size;
  char mark;
};

void mark_ends(char* block, const Owned& owned) {
  std::memset(block, owned.mark, 64);
  std::memset(block + owned.size - 64, owned.mark, 64);
}

bool ends_are_marked(const char* block, const Owned& owned) {
  const auto marked = [&](const char* at) {
    return std::all_of(at, at + 64, [&](char value) { return value == owned.mark; });
  };
  return marked(block) && marked(block + owned.size - 64);
}

std::size_t random_size(std::mt19937& random) {
  // From 100 bytes to 50 MB, small ones as often as large ones.
  return static_cast<std::size_t>(100 *
                                  std::exp2(std::uniform_real_distribution<double>(0, 19)(random)));
}

std::size_t rounded(std::size_t size) {
  return (size + kGranule - 1) / kGranule * kGranule;
}

/// Bytes of the pages that the blocks lie on: they cannot be released.
std::int64_t pinned_bytes(const std::map<char*, Owned>& live) {
  std::map<std::uintptr_t, bool> pages;
  for (const auto& [block, owned] : live) {
    const auto begin = reinterpret_cast<std::uintptr_t>(block);
    for (std::uintptr_t page = begin / kPage; page * kPage < begin + rounded(owned.size); ++page) {
      pages[page] = true;
    }
  }
  return static_cast<std::int64_t>(pages.size() * kPage);
}

class Program {
 public:
  Program(BlockHeap& heap, unsigned seed) : heap_(heap), random_(seed) {}
  ~Program() {
    while (!live_.empty()) {
      free_one();
    }
  }

  void step() {
    const bool grows =
        std::uniform_real_distribution<double>(0, 1)(random_) < (live_.size() < 40 ? 0.6 : 0.4);
    grows || live_.empty() ? allocate_one() : free_one();
  }
  const std::map<char*, Owned>& live() const { return live_; }
  std::int64_t live_bytes() const {
    std::int64_t sum = 0;
    for (const auto& [block, owned] : live_) {
      sum += static_cast<std::int64_t>(rounded(owned.size));
    }
    return sum;
  }

 private:
  void allocate_one() {
    const Owned owned{.size = random_size(random_), .mark = static_cast<char>(random_())};
    auto* const block = static_cast<char*>(heap_.allocate(owned.size));
    const auto next = live_.lower_bound(block);
    ASSERT_TRUE(next == live_.end() || block + owned.size <= next->first) << "blocks overlap";
    ASSERT_TRUE(next == live_.begin() ||
                std::prev(next)->first + std::prev(next)->second.size <= block)
        << "blocks overlap";
    mark_ends(block, owned);
    live_.emplace(block, owned);
  }
  void free_one() {
    auto chosen = live_.begin();
    std::advance(chosen, static_cast<std::ptrdiff_t>(random_() % live_.size()));
    EXPECT_TRUE(ends_are_marked(chosen->first, chosen->second)) << "someone else wrote here";
    heap_.free(chosen->first);
    live_.erase(chosen);
  }

  BlockHeap& heap_;
  std::mt19937 random_;
  std::map<char*, Owned> live_;
};

TEST(BlockHeapProperty, BlocksKeepTheirContentsAndStatisticsAreExact) {
  for (const unsigned seed : {1U, 2U, 3U}) {
    SCOPED_TRACE(seed);
    BlockHeap heap({.reserved_bytes = std::size_t{8} << 30});
    Program program(heap, seed);
    std::int64_t peak = 0, most_pinned = 0;
    for (int step = 0; step < 3000; ++step) {
      program.step();
      const BlockHeapStatistics at = heap.statistics();
      peak = std::max(peak, program.live_bytes());
      ASSERT_EQ(at.live, program.live_bytes());
      ASSERT_EQ(at.live_blocks, static_cast<std::int64_t>(program.live().size()));
      ASSERT_EQ(at.peak_live, peak);
      ASSERT_EQ(at.mapped, at.fetched - at.released);
      ASSERT_GE(at.mapped, pinned_bytes(program.live()));
      ASSERT_EQ(at.cached, at.mapped - at.live);
      most_pinned = std::max(most_pinned, pinned_bytes(program.live()));
      ASSERT_LE(at.mapped,
                std::max(static_cast<std::int64_t>(kMostOfPeak * static_cast<double>(peak)),
                         most_pinned));
    }
    heap.release_cached();
    EXPECT_EQ(heap.statistics().mapped, pinned_bytes(program.live()));
  }
}

TEST(BlockHeapProperty, ThreadsNeverShareABlock) {
  BlockHeap heap({.reserved_bytes = std::size_t{16} << 30});
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < 8; ++seed) {
    threads.emplace_back([&heap, seed] {
      Program program(heap, seed);
      for (int step = 0; step < 1500; ++step) {
        program.step();
        if (step % 500 == 499) {
          heap.release_cached();
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  const BlockHeapStatistics at = heap.statistics();
  EXPECT_EQ(at.live, 0);
  EXPECT_EQ(at.live_blocks, 0);
  heap.release_cached();
  EXPECT_EQ(heap.statistics().mapped, 0);
}

}  // namespace
}  // namespace detforge
