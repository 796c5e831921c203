#include "detforge/core/reserved_memory.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <sys/mman.h>

#include "detforge/core/error.h"

namespace detforge {
namespace {

constexpr std::size_t kStep = std::size_t{64} << 20;  ///< opened at a time: few system calls

std::size_t round_up(std::size_t value, std::size_t unit) {
  return (value + unit - 1) / unit * unit;
}

std::string mib(std::size_t bytes) {
  return std::to_string(bytes >> 20) + " MiB";
}

}  // namespace

ReservedMemory::ReservedMemory(std::size_t bytes) : size_(round_up(bytes, kPage)) {
  mapping_size_ = size_ + kPage;
  void* const mapping =
      ::mmap(nullptr, mapping_size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  DETFORGE_CHECK(mapping != MAP_FAILED,
                 "cannot reserve " + mib(size_) + " of addresses: " + std::strerror(errno),
                 "raise `ulimit -v`, or use --allocator system");
  mapping_ = static_cast<char*>(mapping);
  begin_ = mapping_ + (kPage - reinterpret_cast<std::uintptr_t>(mapping_) % kPage) % kPage;
  ::madvise(begin_, size_, MADV_HUGEPAGE);  // refused where huge pages are off: then small ones
}

ReservedMemory::~ReservedMemory() {
  ::munmap(mapping_, mapping_size_);
}

void ReservedMemory::open(std::size_t bytes) {
  if (bytes <= open_) {
    return;
  }
  const std::size_t end = std::min(round_up(bytes, kStep), size_);
  DETFORGE_CHECK(
      bytes <= size_ && ::mprotect(begin_ + open_, end - open_, PROT_READ | PROT_WRITE) == 0,
      "out of memory: tensors need " + mib(bytes) + " in all, " + mib(open_) +
          " is what the system gave",
      "use a smaller batch or smaller images, or raise `ulimit -v`");
  open_ = end;
}

void ReservedMemory::release(std::size_t first_page, std::size_t last_page) {
  ::madvise(begin_ + first_page * kPage, (last_page - first_page) * kPage, MADV_DONTNEED);
}

}  // namespace detforge
