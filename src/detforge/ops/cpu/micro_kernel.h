#pragma once

#include "detforge/ops/cpu/simd.h"

/// The one inner loop behind every convolution: a small tile of C += A B, held in registers.
namespace detforge::cpu {
namespace {

constexpr int kTileColumns = 2 * Vector::kLanes;

/// How a tile's rows of A lie in memory.
enum class TileLayout {
  kRows,     ///< value k of row i at a[i * stride + k]: pixels as rows, channels contiguous
  kColumns,  ///< value k of row i at a[k * stride + i]: the transpose, for weight gradients
};

/// C[kRows][kTileColumns] (+)= A[kRows][depth] B[depth][kTileColumns]
///   b contiguous; c with `c_stride` floats from row to row; accumulate: add to what C holds.
/// Each call sums over k in order from zero and then adds to C: sums over many calls are sums of
/// blocks, whose rounding errors stay small. The same bits for any tiling of rows.
template <int kRows, TileLayout kLayout>
__attribute__((noinline)) void multiply_tile(std::int64_t depth,
                                             const float* a,
                                             std::int64_t a_stride,
                                             const float* b,
                                             float* c,
                                             std::int64_t c_stride,
                                             bool accumulate) {
  using Register = Vector::Register;
  Register left[kRows], right[kRows];
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
    left[i] = right[i] = Vector::zero();
  }
  // Byte distances: address = base + {1, 2, 4} * distance costs no instruction. Rows 0 to 6 hang on
  // the first base, rows 7 to 13 on the second.
  const auto bytes = a_stride * static_cast<std::int64_t>(sizeof(float));
  const std::int64_t distance[7] = {0,         bytes,     2 * bytes, 3 * bytes,
                                    4 * bytes, 5 * bytes, 6 * bytes};
  const char* base = reinterpret_cast<const char*>(a);
  const char* base7 = base + 7 * bytes;
  for (std::int64_t k = 0; k < depth; ++k) {
    Register b0 = Vector::load(b), b1 = Vector::load(b + Vector::kLanes);
    keep_in_register(b0);
    keep_in_register(b1);
    b += kTileColumns;
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      const char* at = kLayout == TileLayout::kColumns ? base + i * 4
                       : i < 7                         ? base + distance[i]
                                                       : base7 + distance[i - 7];
      Register value = Vector::set(*reinterpret_cast<const float*>(at));
      keep_in_register(value);
      left[i] = Vector::fma(value, b0, left[i]);
      right[i] = Vector::fma(value, b1, right[i]);
    }
    base += kLayout == TileLayout::kColumns ? bytes : 4;
    base7 += 4;
  }
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
    float* row = c + i * c_stride;
    if (accumulate) {
      left[i] = Vector::add(left[i], Vector::load(row));
      right[i] = Vector::add(right[i], Vector::load(row + Vector::kLanes));
    }
    Vector::store(row, left[i]);
    Vector::store(row + Vector::kLanes, right[i]);
  }
}

using TileFunction =
    void (*)(std::int64_t, const float*, std::int64_t, const float*, float*, std::int64_t, bool);

/// multiply_tile for 1 to Vector::kTileRows rows.
template <TileLayout kLayout>
inline TileFunction tile_function(std::int64_t rows) {
  static constexpr TileFunction kFunctions[] = {
    nullptr,
    multiply_tile<1, kLayout>,
    multiply_tile<2, kLayout>,
    multiply_tile<3, kLayout>,
    multiply_tile<4, kLayout>,
    multiply_tile<5, kLayout>,
    multiply_tile<6, kLayout>,
#if defined(__AVX512F__)
    multiply_tile<7, kLayout>,
    multiply_tile<8, kLayout>,
    multiply_tile<9, kLayout>,
    multiply_tile<10, kLayout>,
    multiply_tile<11, kLayout>,
    multiply_tile<12, kLayout>,
    multiply_tile<13, kLayout>,
    multiply_tile<14, kLayout>,
#endif
  };
  return kFunctions[rows];
}

}  // namespace
}  // namespace detforge::cpu
