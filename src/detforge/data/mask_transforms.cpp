#include "detforge/data/mask_transforms.h"

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "detforge/data/resize.h"
#include "detforge/structures/rle.h"
#include "detforge/structures/rle_builder.h"
#include "detforge/structures/rle_spans.h"

namespace detforge {
namespace {

/// Set rows begin..end-1 of one column.
struct RowSpan {
  std::int64_t begin = 0, end = 0;
};

/// The set pixels of a mask, column by column.
class MaskColumns {
 public:
  explicit MaskColumns(RleView mask) {
    check_rle(mask.counts, mask.size);
    first_.reserve(static_cast<std::size_t>(mask.size.width) + 1);
    for_each_column_span(mask, [&](std::int64_t x, std::int64_t begin, std::int64_t end) {
      start_column(x);
      spans_.push_back({begin, end});
    });
    start_column(mask.size.width);
  }
  /// From top to bottom.
  std::span<const RowSpan> operator[](std::int64_t column) const {
    const auto x = static_cast<std::size_t>(column);
    return std::span(spans_).subspan(first_[x], first_[x + 1] - first_[x]);
  }

 private:
  /// Spans from here on belong to this column or later ones.
  void start_column(std::int64_t column) {
    first_.resize(std::max(first_.size(), static_cast<std::size_t>(column) + 1), spans_.size());
  }
  std::vector<RowSpan> spans_;
  std::vector<std::size_t> first_;  ///< of each column, and the number of spans
};

/// The mask whose column x holds what `rows` makes of the spans of column `source(x)`; none below
/// 0. `rows` keeps the order from top to bottom.
template <typename Source, typename Rows>
Rle remap(const MaskColumns& columns, ImageSize size, const Source& source, const Rows& rows) {
  RleBuilder builder(size);
  for (std::int64_t x = 0; x < size.width; ++x) {
    const std::int64_t from = source(x);
    if (from < 0) {
      continue;
    }
    for (const RowSpan span : columns[from]) {
      const RowSpan moved = rows(span);
      builder.set(static_cast<std::uint64_t>(x * size.height + moved.begin),
                  static_cast<std::uint64_t>(x * size.height + std::max(moved.begin, moved.end)));
    }
  }
  return builder.take();
}

RowSpan same_rows(RowSpan span) {
  return span;
}

}  // namespace

Rle resize_mask(RleView mask, ImageSize size) {
  mask_pixels(size);
  const MaskColumns columns(mask);
  const std::vector<std::int64_t> source_columns = nearest_sources(mask.size.width, size.width);
  const std::vector<std::int64_t> source_rows = nearest_sources(mask.size.height, size.height);
  // first_row[y]: the first new row that shows row y or a later one.
  std::vector<std::int64_t> first_row(static_cast<std::size_t>(mask.size.height) + 1, size.height);
  for (std::int64_t y = 0, row = 0; y <= mask.size.height; ++y) {
    while (row < size.height && source_rows[static_cast<std::size_t>(row)] < y) {
      ++row;
    }
    first_row[static_cast<std::size_t>(y)] = row;
  }
  return remap(
      columns, size, [&](std::int64_t x) { return source_columns[static_cast<std::size_t>(x)]; },
      [&](RowSpan span) {
        return RowSpan{first_row[static_cast<std::size_t>(span.begin)],
                       first_row[static_cast<std::size_t>(span.end)]};
      });
}

Rle flip_mask_horizontal(RleView mask) {
  return remap(
      MaskColumns(mask), mask.size, [&](std::int64_t x) { return mask.size.width - 1 - x; },
      same_rows);
}

Rle flip_mask_vertical(RleView mask) {
  const std::int64_t height = mask.size.height;
  const MaskColumns columns(mask);
  RleBuilder builder(mask.size);
  for (std::int64_t x = 0; x < mask.size.width; ++x) {
    const std::span<const RowSpan> spans = columns[x];
    for (auto span = spans.rbegin(); span != spans.rend(); ++span) {
      builder.set(static_cast<std::uint64_t>((x + 1) * height - span->end),
                  static_cast<std::uint64_t>((x + 1) * height - span->begin));
    }
  }
  return builder.take();
}

Rle window_mask(RleView mask, std::int64_t left, std::int64_t top, ImageSize size) {
  mask_pixels(size);
  return remap(
      MaskColumns(mask), size,
      [&](std::int64_t x) {
        return left + x >= 0 && left + x < mask.size.width ? left + x : std::int64_t{-1};
      },
      [&](RowSpan span) {
        return RowSpan{std::clamp(span.begin - top, std::int64_t{0}, size.height),
                       std::clamp(span.end - top, std::int64_t{0}, size.height)};
      });
}

Rle subtract_mask(RleView mask, RleView cover) {
  // The complement has the same runs after one of length 0.
  std::vector<std::uint32_t> runs{0};
  runs.insert(runs.end(), cover.counts.begin(), cover.counts.end());
  return merge_masks(std::array{mask, RleView(cover.size, runs)}, true);
}

}  // namespace detforge
