#include "detforge/core/block_heap.h"

#include <algorithm>
#include <cassert>
#include <string>
#include <tuple>

#include "detforge/core/error.h"

// AddressSanitizer knows malloc's blocks only: tell it what of this heap must not be touched.
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, size) static_cast<void>(0)
#define ASAN_UNPOISON_MEMORY_REGION(address, size) static_cast<void>(0)
#endif

namespace detforge {
namespace {

constexpr std::size_t kPage = ReservedMemory::kPage;

/// 0 for sizes near the largest number.
std::size_t round_up(std::size_t bytes) {
  return (bytes + BlockHeap::kGranule - 1) / BlockHeap::kGranule * BlockHeap::kGranule;
}

std::string mib(std::size_t bytes) {
  return std::to_string(bytes >> 20) + " MiB";
}

}  // namespace

BlockHeap::BlockHeap(const BlockHeapOptions& options)
    : options_(options),
      memory_(options.reserved_bytes),
      resident_(memory_.size() / kPage, false) {}

void* BlockHeap::allocate(std::size_t bytes) {
  const std::size_t size = std::max(round_up(bytes), kGranule);
  const std::lock_guard lock(mutex_);
  const auto live = static_cast<std::size_t>(statistics_.live);
  DETFORGE_CHECK(size >= bytes && size <= options_.most_live_bytes - live,
                 "out of memory: a tensor of " + mib(bytes) + " beside " + mib(live) +
                     " of others, where at most " + mib(options_.most_live_bytes) +
                     " are to be had",
                 "use a smaller batch or smaller images");
  const Offset offset = take_extent(size);
  live_.emplace(offset, size);
  statistics_.live_blocks += 1;
  statistics_.live += static_cast<std::int64_t>(size);
  statistics_.peak_live = std::max(statistics_.peak_live, statistics_.live);
  bounding_peak_ = std::max(bounding_peak_, statistics_.live);
  make_resident(offset, size);
  char* const block = memory_.begin() + offset;
  ASAN_UNPOISON_MEMORY_REGION(block, bytes);
  return block;
}

void BlockHeap::free(void* block) {
  const std::lock_guard lock(mutex_);
  const auto offset = static_cast<Offset>(static_cast<char*>(block) - memory_.begin());
  const auto found = live_.find(offset);
  assert(found != live_.end());  // not a block, or freed twice: our own bug
  const std::size_t size = found->second;
  live_.erase(found);
  ASAN_POISON_MEMORY_REGION(block, size);
  statistics_.live_blocks -= 1;
  statistics_.live -= static_cast<std::int64_t>(size);
  insert_free(offset, {.size = size, .freed_at = ++clock_});
}

/// The smallest free extent that holds `size`; where none does, new addresses.
BlockHeap::Offset BlockHeap::take_extent(std::size_t size) {
  const auto fit = by_size_.lower_bound({size, 0});
  if (fit != by_size_.end()) {
    const Offset offset = fit->second;
    const Extent extent = erase_free(free_.find(offset));
    if (extent.size > size) {
      insert_free(offset + size, {.size = extent.size - size, .freed_at = extent.freed_at});
    }
    return offset;
  }
  const bool last_is_free =
      !free_.empty() && free_.rbegin()->first + free_.rbegin()->second.size == top_;
  const Offset offset = last_is_free ? free_.rbegin()->first : top_;
  memory_.open(offset + size);
  if (last_is_free) {
    erase_free(std::prev(free_.end()));
  }
  top_ = offset + size;
  return offset;
}

/// Adds an extent, merged with its free neighbours.
void BlockHeap::insert_free(Offset offset, Extent extent) {
  auto next = free_.lower_bound(offset);
  if (next != free_.end() && next->first == offset + extent.size) {
    const auto after = next++;
    const Extent merged = erase_free(after);
    extent = {extent.size + merged.size, std::max(extent.freed_at, merged.freed_at)};
  }
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second.size == offset) {
      offset = before->first;
      const Extent merged = erase_free(before);
      extent = {extent.size + merged.size, std::max(extent.freed_at, merged.freed_at)};
    }
  }
  free_.emplace(offset, extent);
  by_size_.emplace(extent.size, offset);
}

BlockHeap::Extent BlockHeap::erase_free(FreeExtents::iterator extent) {
  const Extent value = extent->second;
  by_size_.erase({value.size, extent->first});
  free_.erase(extent);
  return value;
}

std::int64_t BlockHeap::limit() const {
  return static_cast<std::int64_t>(static_cast<double>(bounding_peak_) * (1 + options_.slack));
}

/// Counts the pages of a new block that the system will have to give, after making room for them.
void BlockHeap::make_resident(Offset offset, std::size_t size) {
  const std::size_t first = offset / kPage, last = (offset + size + kPage - 1) / kPage;
  const auto missing = static_cast<std::int64_t>(
      kPage * static_cast<std::size_t>(
                  std::count(resident_.begin() + static_cast<std::ptrdiff_t>(first),
                             resident_.begin() + static_cast<std::ptrdiff_t>(last), false)));
  if (missing > 0 && statistics_.mapped + missing > limit()) {
    release_pages(statistics_.mapped + missing - limit());
  }
  std::fill(resident_.begin() + static_cast<std::ptrdiff_t>(first),
            resident_.begin() + static_cast<std::ptrdiff_t>(last), true);
  statistics_.mapped += missing;
  statistics_.fetched += missing;
}

/// Gives back free pages until at least `wanted` bytes are, or none is left.
std::int64_t BlockHeap::release_pages(std::int64_t wanted) {
  std::vector<std::tuple<std::uint64_t, Offset, std::size_t>> oldest;
  for (const auto& [offset, extent] : free_) {
    oldest.emplace_back(extent.freed_at, offset, extent.size);
  }
  std::sort(oldest.begin(), oldest.end());
  std::int64_t given = 0;
  for (const auto& [freed_at, offset, size] : oldest) {
    if (given >= wanted) {
      break;
    }
    given += release_extent(offset, size, wanted - given);
  }
  statistics_.mapped -= given;
  statistics_.released += given;
  return given;
}

/// The same of the pages that lie wholly in one free extent, or in it and above everything.
std::int64_t BlockHeap::release_extent(Offset offset, std::size_t size, std::int64_t wanted) {
  const bool is_last = offset + size == top_;
  const std::size_t end = (offset + size + (is_last ? kPage - 1 : 0)) / kPage;
  std::int64_t given = 0;
  for (std::size_t page = (offset + kPage - 1) / kPage; page < end && given < wanted; ++page) {
    const std::size_t first = page;
    while (page < end && resident_[page] && given < wanted) {
      resident_[page++] = false;
      given += static_cast<std::int64_t>(kPage);
    }
    if (page > first) {
      memory_.release(first, page);
    }
  }
  return given;
}

std::int64_t BlockHeap::release_cached() {
  const std::lock_guard lock(mutex_);
  bounding_peak_ = statistics_.live;
  return release_pages(statistics_.mapped);
}

BlockHeapStatistics BlockHeap::statistics() const {
  const std::lock_guard lock(mutex_);
  BlockHeapStatistics out = statistics_;
  out.cached = out.mapped - out.live;
  return out;
}

}  // namespace detforge
