#pragma once

#include <cstdint>

namespace detforge {

/// Tells glibc's malloc to keep large blocks instead of mapping and unmapping each: activations of
/// tens of MB otherwise pay a page fault per 4 kB at every step. Call it in main() before anything
/// allocates much. Two P2-level bottlenecks forward and backward, one thread: 2.3 s become 1.5 s of
/// processor time. The price is memory: nothing goes back to the system, and the free blocks of
/// other sizes that pile up make the peak 1.5 times as large (2.1 times where image sizes vary). To
/// trade speed for memory, set one of glibc's MALLOC_MMAP_MAX_, MALLOC_TRIM_THRESHOLD_,
/// MALLOC_TOP_PAD_ in the environment (MALLOC_MMAP_MAX_=65536 is glibc's default): then this does
/// nothing. No-op on other C libraries.
void configure_malloc();

/// Largest resident memory of this process so far, and what is resident now (Linux:
/// /proc/self/status). 0 where the system does not tell.
std::int64_t peak_rss_bytes();
std::int64_t current_rss_bytes();

}  // namespace detforge
