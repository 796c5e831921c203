#pragma once

#include <cstddef>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz/fuzz.h"

namespace detforge::fuzz {

/// A file that exists only in memory and only as long as this object: for readers that want a path.
class MemoryFile {
 public:
  MemoryFile(const void* data, std::size_t size) : descriptor_(memfd_create("fuzz", 0)) {
    require(descriptor_ >= 0, "the system gives a file in memory");
    const char* from = static_cast<const char*>(data);
    while (size > 0) {
      const ssize_t written = write(descriptor_, from, size);
      require(written > 0, "a file in memory can be written");
      from += written;
      size -= static_cast<std::size_t>(written);
    }
  }
  ~MemoryFile() { close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

}  // namespace detforge::fuzz
