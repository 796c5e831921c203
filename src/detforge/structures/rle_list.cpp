#include "detforge/structures/rle_list.h"

namespace detforge {

void RleList::reserve(std::size_t masks, std::size_t runs) {
  entries_.reserve(masks);
  counts_.reserve(runs);
}

void RleList::push_back(RleView mask) {
  emplace_back([&](std::vector<std::uint32_t>& counts) {
    counts.insert(counts.end(), mask.counts.begin(), mask.counts.end());
    return mask.size;
  });
}

void RleList::append(const RleList& other) {
  const std::size_t offset = counts_.size();
  counts_.insert(counts_.end(), other.counts_.begin(), other.counts_.end());
  entries_.reserve(entries_.size() + other.entries_.size());
  for (Entry entry : other.entries_) {
    entry.end += offset;
    entries_.push_back(entry);
  }
}

void RleList::clear() {
  entries_.clear();
  counts_.clear();
}

std::size_t RleList::bytes() const {
  return entries_.size() * sizeof(Entry) + counts_.size() * sizeof(std::uint32_t);
}

}  // namespace detforge
