#pragma once

#include <cstdint>

namespace detforge {

/// Where the large tensors of this process come from: see caching_allocator.h.
enum class TensorSource { kCachingHeap, kMalloc };

/// Sets up glibc's malloc for what it has to serve. Call it before anything allocates much.
///   kCachingHeap  malloc keeps blocks below 32 MB and up to 64 MB of free memory at its top: work
///                 space of libraries and small tensors then cost no page faults at every step.
///   kMalloc       malloc keeps everything: activations of tens of MB otherwise pay a page fault
///                 per 4 kB at every step. The price is memory: nothing goes back to the system,
///                 and the free blocks of other sizes that pile up make the peak 1.5 times as large
///                 (2.1 times where image sizes vary).
/// To trade speed for memory, set one of glibc's MALLOC_MMAP_MAX_, MALLOC_TRIM_THRESHOLD_,
/// MALLOC_TOP_PAD_ in the environment (MALLOC_MMAP_MAX_=65536 is glibc's default): then this does
/// nothing. No-op on other C libraries.
void configure_malloc(TensorSource tensors);

/// Gives malloc's free memory back to the system. No-op on other C libraries than glibc.
void trim_malloc();

/// Largest resident memory of this process so far, and what is resident now (Linux:
/// /proc/self/status). 0 where the system does not tell.
std::int64_t peak_rss_bytes();
std::int64_t current_rss_bytes();

}  // namespace detforge
