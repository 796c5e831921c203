#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "detforge/core/reserved_memory.h"

namespace detforge {

struct BlockHeapOptions {
  std::size_t reserved_bytes = 0;  ///< most that all blocks and the holes between them may span
  /// Most in live blocks: more is an Error rather than the end of this or another process.
  std::size_t most_live_bytes = ~std::size_t{0};
  /// The heap takes no page from the system while free ones could be given back, if it then held
  /// more than (1 + slack) * the largest sum of live blocks.
  double slack = 0.1;
};

/// Bytes unless said otherwise. Sizes of blocks are what the heap hands out: requests rounded up.
struct BlockHeapStatistics {
  std::int64_t live_blocks = 0;  ///< number
  std::int64_t live = 0;         ///< in blocks that were not freed
  std::int64_t peak_live = 0;    ///< largest `live` so far
  std::int64_t mapped = 0;       ///< in pages that were handed out since they were last released
  std::int64_t cached = 0;       ///< mapped - live: at hand for the next blocks
  std::int64_t fetched = 0;      ///< taken from the system so far; what page faults cost time for
  std::int64_t released = 0;     ///< given back so far
};

/// A heap for large blocks: keeps freed memory, so that a training step does not pay for the same
/// page faults as the step before. Blocks lie in one range of addresses; a freed block merges with
/// free neighbours, a new one is cut from the smallest free extent that holds it, so that memory
/// serves any sizes (images of another size need no other memory). Held memory is bounded: before
/// the heap takes more than its limit from the system, it gives back free pages, those unused for
/// longest first. Thread safe. Blocks must be freed before the heap ends.
class BlockHeap {
 public:
  /// Sizes are multiples of it and blocks are aligned to it.
  static constexpr std::size_t kGranule = std::size_t{64} << 10;

  /// Throws Error if so many addresses are not to be had.
  explicit BlockHeap(const BlockHeapOptions& options);

  /// A block of at least `bytes` (0: one granule), its contents undefined. Throws Error if that is
  /// more than most_live_bytes or the addresses allow; nothing changes then.
  void* allocate(std::size_t bytes);
  /// `block` came from allocate() of this heap and was not freed since.
  void free(void* block);
  bool contains(const void* pointer) const { return memory_.contains(pointer); }

  /// Gives back all memory that no live block needs, and forgets the peak that bounded it. Returns
  /// the number of bytes.
  std::int64_t release_cached();

  BlockHeapStatistics statistics() const;

 private:
  using Offset = std::size_t;
  struct Extent {
    std::size_t size;
    std::uint64_t freed_at;  ///< rises with every free
  };
  using FreeExtents = std::map<Offset, Extent>;

  Offset take_extent(std::size_t size);
  void insert_free(Offset offset, Extent extent);
  Extent erase_free(FreeExtents::iterator extent);
  void make_resident(Offset offset, std::size_t size);
  std::int64_t release_pages(std::int64_t wanted);
  std::int64_t release_extent(Offset offset, std::size_t size, std::int64_t wanted);
  std::int64_t limit() const;

  const BlockHeapOptions options_;
  ReservedMemory memory_;
  mutable std::mutex mutex_;
  FreeExtents free_;                                  ///< by address; never two neighbours
  std::set<std::pair<std::size_t, Offset>> by_size_;  ///< the same extents
  std::unordered_map<Offset, std::size_t> live_;      ///< sizes of live blocks
  Offset top_ = 0;                                    ///< what lies above was never used
  std::vector<bool> resident_;                        ///< per page
  std::uint64_t clock_ = 0;
  std::int64_t bounding_peak_ = 0;  ///< largest `live` since the last release_cached()
  BlockHeapStatistics statistics_;
};

}  // namespace detforge
