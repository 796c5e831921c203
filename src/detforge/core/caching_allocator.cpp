#include "detforge/core/caching_allocator.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>
#include <sys/resource.h>
#include <sys/sysinfo.h>

#include <c10/core/CPUAllocator.h>

#include "detforge/core/allocator.h"
#include "detforge/core/error.h"
#include "detforge/core/libtorch_version.h"

namespace detforge {
namespace {

constexpr std::size_t kAlignment = 64;  // what LibTorch's kernels are promised

/// Null before install_caching_allocator(). The heap is never destroyed: LibTorch frees tensors
/// until the very end of the process.
std::atomic<BlockHeap*>& installed_heap() {
  static std::atomic<BlockHeap*> heap{nullptr};
  return heap;
}

/// What this process's container may use (cgroups, version 2 or 1); the largest number without one.
std::size_t container_memory() {
  std::size_t least = std::numeric_limits<std::size_t>::max();
  for (const char* path :
       {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    std::ifstream file(path);
    std::size_t bytes = 0;
    if (file >> bytes && bytes > 0) {  // "max" is no number: no limit
      least = std::min(least, bytes);
    }
  }
  return least;
}

/// Address space for four times the machine's memory, so that holes never matter; half of what
/// `ulimit -v` allows, if it allows less. Memory and swap, or what the container grants, for live
/// blocks: malloc refuses what is more, too, and the kernel would end processes.
BlockHeapOptions heap_options() {
  struct sysinfo machine {};
  ::sysinfo(&machine);
  const std::size_t memory = machine.totalram * machine.mem_unit;
  const std::size_t swap = machine.totalswap * machine.mem_unit;
  const std::size_t granted = std::min(memory + swap, container_memory());
  rlimit addresses{};
  ::getrlimit(RLIMIT_AS, &addresses);
  const std::size_t allowed = addresses.rlim_cur / 2;  // RLIM_INFINITY is the largest number
  return {.reserved_bytes = std::min(4 * (memory + swap), allowed), .most_live_bytes = granted};
}

void* allocate_small(std::size_t bytes) {
  void* block = nullptr;
  DETFORGE_CHECK(::posix_memalign(&block, kAlignment, bytes) == 0,
                 "out of memory: a tensor of " + std::to_string(bytes) + " bytes",
                 "use a smaller batch or smaller images");
  return block;
}

void free_block(void* block) {
  BlockHeap& heap = *installed_heap().load(std::memory_order_acquire);
  heap.contains(block) ? heap.free(block) : std::free(block);
}

/// LibTorch 1.13 asks that a tensor's context is its data (raw_allocate), so sizes and owners are
/// found by address.
class CachingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) DETFORGE_ALLOCATE_CONST override {
    void* block = nullptr;  // of empty tensors, as LibTorch's own allocator gives
    if (bytes >= kSmallestCachedBlock) {
      block = installed_heap().load(std::memory_order_acquire)->allocate(bytes);
    } else if (bytes > 0) {
      block = allocate_small(bytes);
    }
    return {block, block, &free_block, c10::Device(c10::DeviceType::CPU)};
  }

  c10::DeleterFnPtr raw_deleter() const override { return &free_block; }

  /// Newer LibTorch asks for it; 1.13 does not know it.
  void copy_data(void* to, const void* from, std::size_t bytes) const {
    std::memcpy(to, from, bytes);
  }
};

}  // namespace

void install_caching_allocator() {
  static const bool done = [] {
    auto* const allocator = new CachingAllocator;  // LibTorch keeps the pointer for ever
    installed_heap().store(new BlockHeap(heap_options()), std::memory_order_release);
    constexpr std::uint8_t kPriority = 1;  // above LibTorch's own
    c10::SetCPUAllocator(allocator, kPriority);
    return true;
  }();
  static_cast<void>(done);
}

std::int64_t release_cached_memory() {
  trim_malloc();
  BlockHeap* const heap = installed_heap().load(std::memory_order_acquire);
  return heap == nullptr ? 0 : heap->release_cached();
}

BlockHeapStatistics tensor_memory() {
  const BlockHeap* const heap = installed_heap().load(std::memory_order_acquire);
  return heap == nullptr ? BlockHeapStatistics{} : heap->statistics();
}

}  // namespace detforge
