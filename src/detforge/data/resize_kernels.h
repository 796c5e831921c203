#pragma once

#include <cstdint>
#include <vector>

namespace detforge::resize_detail {

/// Fixed point of the weights: 32 bits less 8 of the pixel and 2 to spare, as in Pillow.
constexpr int kPrecisionBits = 22;

/// Which input pixels make each output pixel of one axis, and how much of each.
/// Every output pixel has `taps` weights (an even number; unused ones are 0), so that SIMD code
/// takes them in pairs.
struct AxisWeights {
  std::int64_t taps = 0;
  std::vector<std::int64_t> first;    ///< [out] first input pixel
  std::vector<std::int64_t> count;    ///< [out] input pixels used
  std::vector<std::int32_t> weights;  ///< [out * taps] in units of 2^-kPrecisionBits
};

/// Pillow's triangle filter from `in` to `out` pixels: half width 1 input pixel, or 1 output pixel
/// when shrinking. Ref: Pillow 9.4, Resample.c (arithmetic in double, halves rounded away from
/// zero).
AxisWeights triangle_weights(std::int64_t in, std::int64_t out);

/// Rows of interleaved 3-channel bytes, `in_width` pixels each, resampled to `out_width` pixels.
struct RowsView {
  const std::uint8_t* in;
  std::uint8_t* out;
  std::int64_t rows;
  std::int64_t in_width, out_width;
};

/// Instruction set chosen at run time; both give the same bytes.
bool has_avx2();
void resample_rows_portable(const RowsView& view, const AxisWeights& axis);
void resample_rows_avx2(const RowsView& view, const AxisWeights& axis);

/// Output row y = weighted sum of input rows, `stride` bytes each.
struct ColumnsView {
  const std::uint8_t* in;
  std::uint8_t* out;
  std::int64_t stride, out_rows;
};
void resample_columns_portable(const ColumnsView& view, const AxisWeights& axis);
void resample_columns_avx2(const ColumnsView& view, const AxisWeights& axis);

}  // namespace detforge::resize_detail
