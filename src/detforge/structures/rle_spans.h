#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "detforge/structures/segmentation.h"

namespace detforge {

/// Calls `span(x, begin, end)` for the set pixels of a mask: rows begin..end-1 of column x, never
/// none, in column-major order. A run that crosses columns gives a span in each; runs that touch
/// are not joined. The mask must pass check_rle(): then all spans lie inside its size.
///   for_each_column_span(mask, [&](std::int64_t x, std::int64_t begin, std::int64_t end) { ... });
template <typename Span>
void for_each_column_span(RleView mask, const Span& span) {
  const std::int64_t height = mask.size.height;
  std::int64_t x = 0, y = 0;
  for (std::size_t i = 1; i < mask.counts.size(); i += 2) {
    y += mask.counts[i - 1];
    if (y >= 2 * height) {  // seldom: a division takes longer than all the rest
      x += y / height;
      y %= height;
    } else if (y >= height) {
      ++x;
      y -= height;
    }
    for (std::int64_t left = mask.counts[i]; left > 0;) {
      const std::int64_t end = std::min(y + left, height);
      span(x, y, end);
      left -= end - y;
      y = end;
      if (y == height) {
        y = 0;
        ++x;
      }
    }
  }
}

}  // namespace detforge
