#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace detforge::resize_detail {

/// Fixed point of the weights: 32 bits less 8 of the pixel and 2 to spare, as in Pillow.
constexpr int kPrecisionBits = 22;
/// What rounds a sum of weighted pixels to the nearest.
constexpr std::int32_t kHalf = 1 << (kPrecisionBits - 1);

/// Which input pixels make each output pixel of one axis, and how much of each.
struct AxisWeights {
  std::int64_t taps = 0;            ///< weights per output pixel, an even number; unused ones are 0
  std::int64_t most = 0;            ///< the largest count
  std::vector<std::int64_t> first;  ///< [out] first input pixel
  std::vector<std::int64_t> count;  ///< [out] input pixels used
  std::vector<std::int32_t> weights;  ///< [out * taps] in units of 2^-kPrecisionBits
};

/// Pillow's triangle filter from `in` to `out` pixels: half width 1 input pixel, or 1 output pixel
/// when shrinking. Ref: Pillow 9.4, Resample.c (arithmetic in double, halves rounded up).
AxisWeights triangle_weights(std::int64_t in, std::int64_t out);

/// The sum of weighted bytes as a byte.
std::uint8_t to_byte(std::int32_t sum);

/// The two passes, row by row, on interleaved 3-channel bytes. An object serves one thread and
/// borrows its axes.
class Kernels {
 public:
  /// `row` may write this many bytes behind the end of its output.
  static constexpr std::int64_t kSpareBytes = 16;

  virtual ~Kernels() = default;
  /// One row along the x axis.
  virtual void row(const std::uint8_t* in, std::uint8_t* out) = 0;
  /// Row y along the y axis: the weighted sum of count[y] rows of `bytes` bytes.
  virtual void column(const std::uint8_t* const* rows,
                      std::uint8_t* out,
                      std::int64_t y,
                      std::int64_t bytes) = 0;
};

std::unique_ptr<Kernels> make_portable_kernels(const AxisWeights& x, const AxisWeights& y);
/// The same bytes with AVX2, for rows of `in_width` pixels; nullptr on processors without it.
std::unique_ptr<Kernels> make_avx2_kernels(const AxisWeights& x,
                                           const AxisWeights& y,
                                           std::int64_t in_width);

}  // namespace detforge::resize_detail
