#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "detforge/structures/segmentation.h"

namespace detforge {

/// Many masks end to end in flat memory: two allocations for half a million masks instead of one
/// for each. Masks may have different sizes. Copies are deep; views are valid until the next
/// change. Reading from several threads is safe.
///   RleList masks;
///   masks.push_back(rle);
///   rle_area(masks[0].counts);
class RleList {
 public:
  /// Room for so many masks with so many runs together.
  void reserve(std::size_t masks, std::size_t runs);

  /// Appends a copy. Does not look at the runs: see check_rle().
  void push_back(RleView mask);

  /// Appends a mask whose runs `write` appends to the vector that it is given, without touching
  /// what is there, and whose size it returns: to decode without a buffer in between. If `write`
  /// throws, the list is as it was.
  template <typename Write>
  void emplace_back(Write&& write) {
    const std::size_t begin = counts_.size();
    try {
      const ImageSize size = write(counts_);
      entries_.push_back({.end = counts_.size(), .size = size});
    } catch (...) {
      counts_.resize(begin);
      throw;
    }
  }

  /// Appends all masks of `other`, which may not be this list.
  void append(const RleList& other);

  /// Removes all masks and keeps the memory for new ones.
  void clear();

  std::size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }

  RleView operator[](std::size_t i) const {
    const std::size_t begin = i == 0 ? 0 : entries_[i - 1].end;
    return {entries_[i].size, std::span(counts_).subspan(begin, entries_[i].end - begin)};
  }

  /// Runs of all masks together.
  std::size_t run_count() const { return counts_.size(); }

  /// Bytes of memory that the masks take.
  std::size_t bytes() const;

 private:
  struct Entry {
    std::size_t end;  // of its runs in counts_
    ImageSize size;
  };

  std::vector<Entry> entries_;
  std::vector<std::uint32_t> counts_;
};

}  // namespace detforge
