#include "detforge/structures/rle.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "detforge/core/error.h"
#include "detforge/structures/rle_builder.h"
#include "detforge/structures/rle_spans.h"

namespace detforge {
namespace {

/// Gives the runs of a mask one after the other, those of length 0 left out.
class RunReader {
 public:
  explicit RunReader(std::span<const std::uint32_t> counts) : counts_(counts) { skip_empty(); }
  bool done() const { return next_ == counts_.size(); }
  /// Pixels left of the current run, and whether they are set.
  std::uint32_t left() const { return counts_[next_] - used_; }
  bool is_set() const { return next_ % 2 == 1; }
  void advance(std::uint32_t pixels) {
    used_ += pixels;
    if (used_ == counts_[next_]) {
      used_ = 0;
      ++next_;
      skip_empty();
    }
  }

 private:
  void skip_empty() {
    while (!done() && counts_[next_] == 0) {
      ++next_;
    }
  }
  std::span<const std::uint32_t> counts_;
  std::size_t next_ = 0;
  std::uint32_t used_ = 0;
};

/// Both of one size and checked.
Rle merge_two(RleView a, RleView b, bool intersect) {
  RleBuilder merged(a.size);
  RunReader first(a.counts), second(b.counts);
  std::uint64_t at = 0;
  while (!first.done() && !second.done()) {
    const std::uint32_t pixels = std::min(first.left(), second.left());
    if (intersect ? first.is_set() && second.is_set() : first.is_set() || second.is_set()) {
      merged.set(at, at + pixels);
    }
    first.advance(pixels);
    second.advance(pixels);
    at += pixels;
  }
  return merged.take();
}

void check_bitmap(std::size_t bytes, ImageSize size) {
  DETFORGE_CHECK(
      bytes == mask_pixels(size),
      fmt::format("a bitmap of {} bytes for a mask of {} x {}", bytes, size.height, size.width),
      "give height * width bytes");
}

}  // namespace

void check_rle(std::span<const std::uint32_t> counts, ImageSize size) {
  const std::uint64_t pixels = mask_pixels(size);
  std::uint64_t sum = 0;
  for (const std::uint32_t run : counts) {
    sum += run;
  }
  DETFORGE_CHECK(sum == pixels,
                 fmt::format("the runs of the RLE sum to {}, its size {} x {} has {} pixels", sum,
                             size.height, size.width, pixels),
                 "size is [height, width]; were the counts cut, or made for another size?");
}

Rle encode_mask(std::span<const std::uint8_t> row_major, ImageSize size) {
  check_bitmap(row_major.size(), size);
  constexpr std::size_t kColumns = 64;  // turned at a time: one cache line of each row
  const auto height = static_cast<std::size_t>(size.height),
             width = static_cast<std::size_t>(size.width);
  std::vector<std::uint8_t> columns(std::min(kColumns, width) * height);
  RleBuilder builder(size);
  for (std::size_t left = 0; left < width; left += kColumns) {
    const std::size_t count = std::min(kColumns, width - left);
    for (std::size_t y = 0; y < height; ++y) {
      for (std::size_t x = 0; x < count; ++x) {
        columns[x * height + y] = row_major[y * width + left + x] != 0 ? 1 : 0;
      }
    }
    const std::uint8_t* const begin = columns.data();
    const std::uint8_t* const end = begin + count * height;
    const auto find = [end](const std::uint8_t* from, int value) {
      const void* found = std::memchr(from, value, static_cast<std::size_t>(end - from));
      return found == nullptr ? end : static_cast<const std::uint8_t*>(found);
    };
    for (const std::uint8_t* at = find(begin, 1); at != end;) {
      const std::uint8_t* const stop = find(at, 0);
      builder.set(left * height + static_cast<std::size_t>(at - begin),
                  left * height + static_cast<std::size_t>(stop - begin));
      at = find(stop, 1);
    }
  }
  return builder.take();
}

void decode_mask(RleView mask, std::span<std::uint8_t> row_major) {
  check_rle(mask.counts, mask.size);
  check_bitmap(row_major.size(), mask.size);
  std::fill(row_major.begin(), row_major.end(), std::uint8_t{0});
  for_each_column_span(mask, [&](std::int64_t x, std::int64_t begin, std::int64_t end) {
    for (std::int64_t y = begin; y < end; ++y) {
      row_major[static_cast<std::size_t>(y * mask.size.width + x)] = 1;
    }
  });
}

Rle merge_masks(std::span<const RleView> masks, bool intersect) {
  DETFORGE_CHECK(!masks.empty(), "there are no masks to merge", "give at least one");
  for (const RleView& mask : masks) {
    check_rle(mask.counts, mask.size);
    DETFORGE_CHECK(
        mask.size == masks[0].size,
        fmt::format("masks of {} x {} and {} x {} cannot be merged", masks[0].size.height,
                    masks[0].size.width, mask.size.height, mask.size.width),
        "give masks of one image");
  }
  Rle merged{masks[0].size, {masks[0].counts.begin(), masks[0].counts.end()}};
  for (const RleView& mask : masks.subspan(1)) {
    merged = merge_two(merged, mask, intersect);
  }
  return merged;
}

std::int64_t rle_area(std::span<const std::uint32_t> counts) {
  std::int64_t area = 0;
  for (std::size_t i = 1; i < counts.size(); i += 2) {
    area += counts[i];
  }
  return area;
}

Box rle_box(std::span<const std::uint32_t> counts, std::int64_t height) {
  std::int64_t x1 = INT64_MAX, y1 = INT64_MAX, x2 = 0, y2 = 0;
  std::int64_t column = 0, row = 0;  // where the run begins
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const std::int64_t run = counts[i];
    if (run == 0) {
      continue;
    }
    if (i % 2 == 1) {
      const bool one_column = row + run <= height;
      x1 = std::min(x1, column);
      x2 = std::max(x2, one_column ? column + 1 : column + (row + run - 1) / height + 1);
      y1 = std::min(y1, one_column ? row : 0);
      y2 = std::max(y2, one_column ? row + run : height);
    }
    row += run;
    if (row >= 2 * height) {  // seldom: a division takes longer than all the rest
      column += row / height;
      row %= height;
    } else if (row >= height) {
      ++column;
      row -= height;
    }
  }
  if (x2 == 0) {
    return {};
  }
  return {static_cast<double>(x1), static_cast<double>(y1), static_cast<double>(x2),
          static_cast<double>(y2)};
}

double polygon_area(std::span<const double> xy) {
  double twice = 0;
  const std::size_t points = xy.size() / 2;
  for (std::size_t i = 0; i < points; ++i) {
    const std::size_t j = (i + 1) % points;
    // Relative to the first point, so that collinear points give exactly or nearly 0 far from the
    // origin too.
    twice += (xy[2 * i] - xy[0]) * (xy[2 * j + 1] - xy[1]) -
             (xy[2 * j] - xy[0]) * (xy[2 * i + 1] - xy[1]);
  }
  return std::abs(twice) / 2;
}

Box polygon_box(std::span<const double> xy) {
  Box box{xy[0], xy[1], xy[0], xy[1]};
  for (std::size_t i = 2; i + 1 < xy.size(); i += 2) {
    box.x1 = std::min(box.x1, xy[i]);
    box.x2 = std::max(box.x2, xy[i]);
    box.y1 = std::min(box.y1, xy[i + 1]);
    box.y2 = std::max(box.y2, xy[i + 1]);
  }
  return box;
}

}  // namespace detforge
