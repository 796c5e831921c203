#include "detforge/ops/cpu/pixel_rows.h"

#include <algorithm>
#include <cstring>

namespace detforge::cpu {

PixelRows::PixelRows(const ConstMap& input,
                     const MapShape& shape,
                     const std::vector<ConvTap>& taps,
                     const Grid& grid)
    : input_(input),
      shape_(shape),
      grid_(grid),
      columns_(static_cast<std::int64_t>(taps.size()) * shape.channels) {
  for (const ConvTap& tap : taps) {
    const bool follows = !runs_.empty() && runs_.back().dy == tap.dy &&
                         runs_.back().dx + runs_.back().taps == tap.dx;
    if (follows) {
      ++runs_.back().taps;
    } else {
      const std::int64_t column =
          runs_.empty() ? 0 : runs_.back().first_column + runs_.back().taps * shape.channels;
      runs_.push_back({tap.dy, tap.dx, 1, column});
    }
  }
  in_place_ = input.storage() == Storage::kFloat && taps.size() == 1 && taps[0].dy == 0 &&
              taps[0].dx == 0 && grid.step_y == 1 && grid.step_x == 1 &&
              grid.height == shape.height && grid.width == shape.width;
}

template <typename Copy>
void PixelRows::visit(std::int64_t first_row,
                      std::int64_t rows,
                      std::int64_t first_column,
                      std::int64_t columns,
                      Copy copy) const {
  const std::int64_t channels = shape_.channels, end_column = first_column + columns;
  PixelWalk walk(grid_.height, grid_.width, first_row);
  for (std::int64_t r = 0; r < rows; ++r, walk.next()) {
    const std::int64_t x = walk.x * grid_.step_x, y = walk.y * grid_.step_y, image = walk.image;
    for (const Run& run : runs_) {
      const std::int64_t begin = std::max(first_column, run.first_column);
      const std::int64_t end = std::min(end_column, run.first_column + run.taps * channels);
      if (begin >= end) {
        continue;
      }
      const std::int64_t row = y + run.dy, column = x + run.dx;
      // The part of the run that lies on the map, in columns.
      const std::int64_t on_map = std::max<std::int64_t>(0, -column) * channels + run.first_column;
      const std::int64_t off_map =
          std::min(run.taps, shape_.width - column) * channels + run.first_column;
      const bool exists = row >= 0 && row < shape_.height;
      const std::int64_t from = exists ? std::clamp(on_map, begin, end) : end;
      const std::int64_t to = exists ? std::clamp(off_map, from, end) : end;
      if (from > begin) {
        copy(r, begin - first_column, ConstMap(), from - begin);
      }
      if (to > from) {
        const std::int64_t corner =
            ((image * shape_.height + row) * shape_.width + column) * channels;
        copy(r, from - first_column, input_ + (corner + from - run.first_column), to - from);
      }
      if (end > to) {
        copy(r, to - first_column, ConstMap(), end - to);
      }
    }
  }
}

namespace {

void copy_or_clear(const ConvKernels& k, float* to, const ConstMap& from, std::int64_t count) {
  const auto bytes = static_cast<std::size_t>(count) * sizeof(float);
  if (from.is_null()) {
    std::memset(to, 0, bytes);
  } else if (from.storage() == Storage::kFloat) {
    std::memcpy(to, from.as<float>(), bytes);
  } else {
    k.load_values(from, count, to);
  }
}

}  // namespace

void PixelRows::copy_rows(const ConvKernels& kernels,
                          std::int64_t first_row,
                          std::int64_t rows,
                          std::int64_t first_column,
                          std::int64_t columns,
                          float* to,
                          std::int64_t stride) const {
  visit(first_row, rows, first_column, columns,
        [&](std::int64_t row, std::int64_t column, const ConstMap& from, std::int64_t count) {
          copy_or_clear(kernels, to + row * stride + column, from, count);
        });
}

void PixelRows::copy_panels(const ConvKernels& kernels,
                            std::int64_t first_row,
                            std::int64_t rows,
                            std::int64_t first_column,
                            std::int64_t columns,
                            float* to,
                            std::int64_t width) const {
  visit(first_row, rows, first_column, columns,
        [&](std::int64_t row, std::int64_t column, ConstMap from, std::int64_t count) {
          while (count > 0) {
            const std::int64_t inside = column % width;
            const std::int64_t part = std::min(width - inside, count);
            copy_or_clear(kernels, to + column / width * rows * width + row * width + inside, from,
                          part);
            from = from.is_null() ? from : from + part;
            column += part;
            count -= part;
          }
        });
  const std::int64_t rest = columns % width;
  for (std::int64_t r = 0; rest > 0 && r < rows; ++r) {
    copy_or_clear(kernels, to + columns / width * rows * width + r * width + rest, {},
                  width - rest);
  }
}

}  // namespace detforge::cpu
