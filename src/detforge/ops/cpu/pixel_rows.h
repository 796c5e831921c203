#pragma once

#include <cstdint>
#include <vector>

#include "detforge/ops/cpu/conv_kernels.h"

namespace detforge::cpu {

/// One tap of a kernel: it reads the input pixel (y * step_y + dy, x * step_x + dx) for the output
/// pixel (y, x), and its weight for input channel c and output channel o lies at
/// weight_offset + c * input_stride + o * output_stride.
struct ConvTap {
  std::int64_t dy = 0, dx = 0, weight_offset = 0;
};

/// The pixels of a batch one after the other, without a division for each.
struct PixelWalk {
  PixelWalk(std::int64_t map_height, std::int64_t map_width, std::int64_t first)
      : image(first / map_width / map_height),
        y(first / map_width % map_height),
        x(first % map_width),
        height(map_height),
        width(map_width) {}
  void next() {
    if (++x == width) {
      x = 0;
      if (++y == height) {
        y = 0;
        ++image;
      }
    }
  }

  std::int64_t image, y, x;

 private:
  std::int64_t height, width;
};

/// A convolution's input as a matrix: one row for each output pixel, one column for each tap and
/// input channel (tap by tap). Rows are made a block at a time; the whole is never stored.
class PixelRows {
 public:
  struct Grid {
    std::int64_t height = 0, width = 0;   ///< output pixels of one image
    std::int64_t step_y = 1, step_x = 1;  ///< input pixels from one to the next
  };

  /// `taps` row by row, dx rising: neighbours are copied together.
  PixelRows(const ConstMap& input,
            const MapShape& shape,
            const std::vector<ConvTap>& taps,
            const Grid& grid);

  std::int64_t rows() const { return shape_.images * grid_.height * grid_.width; }
  std::int64_t columns() const { return columns_; }
  const Grid& grid() const { return grid_; }

  /// Row 0 if the input itself is the matrix, rows of floats following each other without gaps;
  /// else null.
  const float* in_place() const { return in_place_ ? input_.as<float>() : nullptr; }

  /// Columns [first_column, first_column + columns) of `rows` rows, into to[row * stride + column].
  void copy_rows(const ConvKernels& kernels,
                 std::int64_t first_row,
                 std::int64_t rows,
                 std::int64_t first_column,
                 std::int64_t columns,
                 float* to,
                 std::int64_t stride) const;

  /// The same part in panels of `width` columns: value (row, column) goes to
  /// to[column / width * rows * width + row * width + column % width]; the last panel's rest is 0.
  void copy_panels(const ConvKernels& kernels,
                   std::int64_t first_row,
                   std::int64_t rows,
                   std::int64_t first_column,
                   std::int64_t columns,
                   float* to,
                   std::int64_t width) const;

 private:
  /// Taps side by side, which are contiguous in the input and in the row.
  struct Run {
    std::int64_t dy, dx, taps, first_column;
  };

  /// Calls copy(row, column, place or null for zeros, count) for each contiguous piece.
  template <typename Copy>
  void visit(std::int64_t first_row,
             std::int64_t rows,
             std::int64_t first_column,
             std::int64_t columns,
             Copy copy) const;

  ConstMap input_;
  MapShape shape_;
  Grid grid_;
  std::vector<Run> runs_;
  std::int64_t columns_;
  bool in_place_;
};

}  // namespace detforge::cpu
