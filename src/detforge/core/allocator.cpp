#include "detforge/core/allocator.h"

#include <climits>
#include <cstdlib>
#include <fstream>
#include <string>

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace detforge {
namespace {

/// The value of a line `key:   1234 kB` of /proc/self/status.
std::int64_t status_bytes(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.compare(0, key.size(), key) == 0) {
      return std::strtoll(line.c_str() + key.size(), nullptr, 10) * 1024;
    }
  }
  return 0;
}

}  // namespace

void configure_malloc([[maybe_unused]] TensorSource tensors) {
#ifdef __GLIBC__
  for (const char* variable : {"MALLOC_MMAP_MAX_", "MALLOC_TRIM_THRESHOLD_", "MALLOC_TOP_PAD_"}) {
    if (std::getenv(variable) != nullptr) {
      return;
    }
  }
  if (tensors == TensorSource::kCachingHeap) {
    mallopt(M_MMAP_THRESHOLD, 32 << 20);  // the most that glibc takes
    mallopt(M_TRIM_THRESHOLD, 64 << 20);
    mallopt(M_TOP_PAD, 4 << 20);
  } else {
    mallopt(M_MMAP_MAX, 0);
    mallopt(M_TRIM_THRESHOLD, INT_MAX);
    mallopt(M_TOP_PAD, 64 << 20);  // 0 to 256 MB measure alike; grows the heap in few calls
  }
#endif
}

void trim_malloc() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

std::int64_t peak_rss_bytes() {
  return status_bytes("VmHWM:");
}

std::int64_t current_rss_bytes() {
  return status_bytes("VmRSS:");
}

}  // namespace detforge
