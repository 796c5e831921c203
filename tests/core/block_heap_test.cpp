#include "detforge/core/block_heap.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <sys/mman.h>
#include <vector>

#include <gtest/gtest.h>

#include "detforge/core/error.h"

namespace detforge {
namespace {

constexpr std::size_t kGranule = BlockHeap::kGranule;
const double kMostOfPeak = 1 + BlockHeapOptions().slack;
constexpr std::size_t kPage = ReservedMemory::kPage;
constexpr std::size_t kMib = std::size_t{1} << 20;
constexpr std::size_t kReserved = std::size_t{4} << 30;

BlockHeap make_heap() {
  return BlockHeap({.reserved_bytes = kReserved});
}

std::int64_t mib(double count) {
  return static_cast<std::int64_t>(count * static_cast<double>(kMib));
}

/// What the kernel says about `size` bytes from `begin`: how many have memory.
std::int64_t resident_bytes(const char* begin, std::size_t size) {
  constexpr std::size_t kSmallPage = 4096;
  std::vector<unsigned char> pages(size / kSmallPage);
  EXPECT_EQ(::mincore(const_cast<char*>(begin), size, pages.data()), 0);
  return static_cast<std::int64_t>(kSmallPage) *
         std::count_if(pages.begin(), pages.end(), [](unsigned char page) { return page & 1; });
}

/// A block with a pattern of its own at both ends and in every 4 kB.
struct Block {
  char* data;
  std::size_t size;
  unsigned char mark;

  Block(BlockHeap& heap, std::size_t bytes, unsigned char pattern)
      : data(static_cast<char*>(heap.allocate(bytes))), size(bytes), mark(pattern) {
    for (std::size_t i = 0; i < size; i += 4096) {
      data[i] = static_cast<char>(mark);
    }
    data[size - 1] = static_cast<char>(mark);
  }
  bool intact() const {
    for (std::size_t i = 0; i < size; i += 4096) {
      if (data[i] != static_cast<char>(mark)) {
        return false;
      }
    }
    return data[size - 1] == static_cast<char>(mark);
  }
};

TEST(BlockHeap, BlocksAreAlignedAndAsLargeAsAsked) {
  BlockHeap heap = make_heap();
  for (const std::size_t size : {std::size_t{1}, std::size_t{64}, kGranule - 1, kGranule,
                                 kGranule + 1, kPage - 1, kPage, 5 * kPage + 3, 300 * kMib}) {
    auto* const block = static_cast<char*>(heap.allocate(size));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % kGranule, 0U) << size;
    std::memset(block, 7, size);
    EXPECT_TRUE(heap.contains(block));
    EXPECT_TRUE(heap.contains(block + size - 1));
    heap.free(block);
  }
  const int elsewhere = 0;
  EXPECT_FALSE(heap.contains(&elsewhere));
  EXPECT_FALSE(heap.contains(nullptr));
}

TEST(BlockHeap, ABlockOfZeroBytesIsABlockOfItsOwn) {
  BlockHeap heap = make_heap();
  void* const first = heap.allocate(0);
  void* const second = heap.allocate(0);
  EXPECT_NE(first, second);
  heap.free(first);
  heap.free(second);
  EXPECT_EQ(heap.statistics().live, 0);
}

TEST(BlockHeap, StatisticsOfAHandComputedCase) {
  BlockHeap heap = make_heap();
  void* const a = heap.allocate(3 * kMib);           // [0, 3): pages 0 and 1 of 2 MiB
  void* const b = heap.allocate(3 * kMib - 60'000);  // 60,000 < a granule: [3, 6), page 2 too
  BlockHeapStatistics at = heap.statistics();
  EXPECT_EQ(at.live_blocks, 2);
  EXPECT_EQ(at.live, mib(6));
  EXPECT_EQ(at.mapped, mib(6));
  EXPECT_EQ(at.cached, 0);
  heap.free(a);
  void* const c = heap.allocate(kMib + 1);  // [0, 1) and a granule of a's place
  at = heap.statistics();
  EXPECT_EQ(at.live, mib(3 + 1) + static_cast<std::int64_t>(kGranule));
  EXPECT_EQ(at.peak_live, mib(6));
  EXPECT_EQ(at.mapped, mib(6));
  EXPECT_EQ(at.cached, mib(2) - static_cast<std::int64_t>(kGranule));
  EXPECT_EQ(at.fetched, mib(6));
  EXPECT_EQ(at.released, 0);
  heap.free(b);
  heap.free(c);
}

TEST(BlockHeap, AFreedBlockServesTheNextOneWithoutNewMemory) {
  BlockHeap heap = make_heap();
  void* const block = heap.allocate(40 * kMib);
  heap.free(block);
  const std::int64_t fetched = heap.statistics().fetched;
  EXPECT_EQ(heap.allocate(40 * kMib), block);
  EXPECT_EQ(heap.statistics().fetched, fetched);
  heap.free(block);
}

TEST(BlockHeap, FreeNeighboursServeOneLargeBlock) {
  // All six orders in which three neighbours can be freed.
  std::vector<int> order = {0, 1, 2};
  do {
    BlockHeap heap = make_heap();
    void* blocks[3];
    for (void*& block : blocks) {
      block = heap.allocate(10 * kMib);
    }
    void* const wall = heap.allocate(kMib);  // so that the new block cannot simply grow upwards
    for (const int i : order) {
      heap.free(blocks[i]);
    }
    EXPECT_EQ(heap.allocate(30 * kMib), blocks[0]) << testing::PrintToString(order);
    EXPECT_EQ(heap.statistics().mapped, mib(32));
    heap.free(blocks[0]);
    heap.free(wall);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(BlockHeap, TheSmallestHoleThatFitsIsTaken) {
  BlockHeap heap = make_heap();
  std::vector<void*> holes, walls;
  for (const std::size_t size : {50, 20, 30, 20}) {
    holes.push_back(heap.allocate(size * kMib));
    walls.push_back(heap.allocate(kMib));
  }
  for (void* const hole : holes) {
    heap.free(hole);
  }
  EXPECT_EQ(heap.allocate(25 * kMib), holes[2]);
  EXPECT_EQ(heap.allocate(20 * kMib), holes[1]);
  EXPECT_EQ(heap.allocate(31 * kMib), holes[0]);
}

TEST(BlockHeap, ReleaseGivesBackWhatIsFreeAndKeepsWhatIsLive) {
  BlockHeap heap = make_heap();
  const Block first(heap, 64 * kMib, 1), middle(heap, 3 * kMib, 2), last(heap, 61 * kMib, 3);
  EXPECT_EQ(resident_bytes(first.data, 128 * kMib), mib(128));
  heap.free(first.data);
  heap.free(last.data);
  EXPECT_EQ(resident_bytes(first.data, 128 * kMib), mib(128)) << "free memory is kept";
  // middle lies at [64, 67): pages 32 and 33 stay, 62 of 64 go.
  EXPECT_EQ(heap.release_cached(), mib(124));
  EXPECT_LE(resident_bytes(first.data, 128 * kMib), mib(4));
  EXPECT_TRUE(middle.intact());
  const BlockHeapStatistics at = heap.statistics();
  EXPECT_EQ(at.mapped, mib(4));
  EXPECT_EQ(at.released, mib(124));
  EXPECT_EQ(heap.release_cached(), 0);
  const Block again(heap, 64 * kMib, 4);  // released memory can be used again
  EXPECT_EQ(heap.statistics().mapped, mib(64 + 4));
  EXPECT_TRUE(again.intact() && middle.intact());
}

TEST(BlockHeap, MoreThanThereAreAddressesIsAnErrorAndLeavesTheHeapUsable) {
  BlockHeap heap({.reserved_bytes = 8 * kMib});
  void* const block = heap.allocate(5 * kMib);
  for (const std::size_t size : {4 * kMib, kReserved, ~std::size_t{0}}) {
    EXPECT_THROW(heap.allocate(size), Error) << size;
  }
  EXPECT_EQ(heap.statistics().live, mib(5));
  heap.free(block);
  EXPECT_EQ(heap.allocate(8 * kMib), block);
}

TEST(BlockHeap, MoreThanTheMostLiveBytesIsAnErrorThatSaysHowMuchThereIs) {
  BlockHeap heap({.reserved_bytes = kReserved, .most_live_bytes = 10 * kMib});
  void* const block = heap.allocate(6 * kMib);
  try {
    heap.allocate(5 * kMib);
    FAIL() << "11 MiB of 10";
  } catch (const Error& error) {
    const std::string what = error.what();
    for (const char* part : {"tensor of 5 MiB", "beside 6 MiB", "at most 10 MiB"}) {
      EXPECT_NE(what.find(part), std::string::npos) << what;
    }
  }
  heap.free(block);
  EXPECT_EQ(heap.allocate(10 * kMib), block);
}

/// One training step: activations of `layers` sizes are kept, each with a temporary of its size;
/// then they are freed backwards, each beside a gradient. Returns the largest sum of live bytes.
std::int64_t training_step(BlockHeap& heap, double scale, int layers) {
  std::vector<void*> kept;
  std::int64_t peak = 0;
  const auto note = [&] { peak = std::max(peak, heap.statistics().live); };
  const auto size = [&](int layer) {
    return static_cast<std::size_t>(scale * 24e6 / (1 + layer / 6)) + 1;
  };
  for (int layer = 0; layer < layers; ++layer) {
    void* const temporary = heap.allocate(size(layer));
    kept.push_back(heap.allocate(size(layer)));
    note();
    heap.free(temporary);
  }
  void* gradient = heap.allocate(size(layers - 1));
  for (int layer = layers - 1; layer >= 0; --layer) {
    void* const next = heap.allocate(size(layer));
    note();
    heap.free(gradient);
    heap.free(kept[static_cast<std::size_t>(layer)]);
    gradient = next;
  }
  heap.free(gradient);
  return peak;
}

TEST(BlockHeap, TheSecondStepOfOneSizeNeedsNoNewMemory) {
  BlockHeap heap = make_heap();
  training_step(heap, 1, 40);
  const std::int64_t fetched = heap.statistics().fetched;
  training_step(heap, 1, 40);
  EXPECT_EQ(heap.statistics().fetched, fetched);
}

TEST(BlockHeap, StepsOfVaryingSizesDoNotPileUp) {
  BlockHeap heap = make_heap();
  std::mt19937 random(5);
  std::uniform_real_distribution<double> scale(0.4, 1.0);
  std::int64_t peak = 0, most = 0;
  for (int step = 0; step < 200; ++step) {
    peak = std::max(peak, training_step(heap, scale(random), 40));
    most = std::max(most, heap.statistics().mapped);
  }
  const BlockHeapStatistics at = heap.statistics();
  EXPECT_EQ(at.peak_live, peak);
  EXPECT_LE(static_cast<double>(most), kMostOfPeak * static_cast<double>(peak));
  // The rest of a step's memory comes from the steps before: a small part is fetched anew.
  EXPECT_LT(at.fetched, 200 * peak / 10);
}

}  // namespace
}  // namespace detforge
