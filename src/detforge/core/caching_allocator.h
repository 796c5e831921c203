#pragma once

#include <cstddef>
#include <cstdint>

#include "detforge/core/block_heap.h"

/// LibTorch's CPU tensors from a heap of our own. Only programs with LibTorch may use this file:
/// core itself stays free of it. docs/decisions/0005-allocator.md has the reasons and measurements.
namespace detforge {

/// Tensors of at least so many bytes come from the heap; smaller ones from malloc, which keeps
/// blocks of their size anyway.
constexpr std::size_t kSmallestCachedBlock = std::size_t{512} << 10;

/// From now on LibTorch takes the memory of CPU tensors (and of oneDNN's copies) from a BlockHeap,
/// aligned to 64 bytes or more. Thread safe after its first call; calling it again changes nothing.
/// Tensors made before stay valid. The heap lives until the process ends. Throws Error if addresses
/// are not to be had.
void install_caching_allocator();

/// Gives memory that no tensor uses back to the system, malloc's too. Before and after another kind
/// of work than before (evaluation); costs page faults when the memory is needed again. Returns the
/// bytes that the heap gave: 0 without install_caching_allocator().
std::int64_t release_cached_memory();

/// Of tensors of at least kSmallestCachedBlock; all 0 without install_caching_allocator().
BlockHeapStatistics tensor_memory();

}  // namespace detforge
