#pragma once

#include <cstddef>

namespace detforge {

/// A range of addresses of which parts get memory when they are first written and can give it back:
/// address space costs nothing, memory does. The range asks for huge pages (MADV_HUGEPAGE). It owns
/// the range and unmaps it at the end. Not thread safe. Linux.
class ReservedMemory {
 public:
  static constexpr std::size_t kPage = std::size_t{2} << 20;  ///< a huge page of x86-64

  /// Reserves `bytes`, rounded up to pages. Throws Error if the system has no room for so many
  /// addresses (`ulimit -v`).
  explicit ReservedMemory(std::size_t bytes);
  ~ReservedMemory();
  ReservedMemory(const ReservedMemory&) = delete;
  ReservedMemory& operator=(const ReservedMemory&) = delete;

  /// Aligned to kPage.
  char* begin() const { return begin_; }
  std::size_t size() const { return size_; }
  bool contains(const void* pointer) const {
    const auto* const at = static_cast<const char*>(pointer);
    return at >= begin_ && at < begin_ + size_;
  }

  /// Lets the first `bytes` be read and written; before, touching them is a segmentation fault.
  /// Throws Error if the system refuses.
  void open(std::size_t bytes);

  /// Gives the memory of pages [first, last) back: they read as zeros when touched again.
  void release(std::size_t first_page, std::size_t last_page);

 private:
  char* mapping_ = nullptr;  ///< what mmap gave; begin_ is its first whole page
  std::size_t mapping_size_ = 0;
  char* begin_ = nullptr;
  std::size_t size_ = 0, open_ = 0;
};

}  // namespace detforge
