#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include <ATen/Parallel.h>

#include "detforge/train/optimizer.h"

/// Passes over all elements of many tensors at once: cut into pieces of a fixed size, whatever the
/// number of threads, so that sums have one order.
namespace detforge {

/// Elements [begin, end) of tensor number `tensor`, in the order of memory.
struct Chunk {
  std::size_t tensor;
  std::int64_t begin, end;
};

inline std::vector<Chunk> make_chunks(const NamedTensors& tensors) {
  constexpr std::int64_t kSize = 1 << 15;
  std::vector<Chunk> chunks;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::int64_t count = tensors[i].second.numel();
    for (std::int64_t begin = 0; begin < count; begin += kSize) {
      chunks.push_back({i, begin, std::min(begin + kSize, count)});
    }
  }
  return chunks;
}

/// Calls work(number of the chunk, chunk) for each, from several threads.
template <typename Work>
void for_each_chunk(const std::vector<Chunk>& chunks, const Work& work) {
  at::parallel_for(0, static_cast<std::int64_t>(chunks.size()), 1,
                   [&](std::int64_t first, std::int64_t last) {
                     for (std::int64_t i = first; i < last; ++i) {
                       work(static_cast<std::size_t>(i), chunks[static_cast<std::size_t>(i)]);
                     }
                   });
}

}  // namespace detforge
