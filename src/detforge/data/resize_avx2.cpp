// Both passes with AVX2, exact to the last bit. A 22-bit weight does not fit the 16-bit
// multiply-add, so it is split, w = high * 2^11 + low, and sum(p * w) = (sum(p * high) << 11) +
// sum(p * low). One multiply-add takes two taps for eight values, which makes this twice as fast as
// 32-bit multiplication.
#include <algorithm>
#include <cstring>

#include "detforge/data/resize_kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define DETFORGE_AVX2 __attribute__((target("avx2")))
#endif

namespace detforge::resize_detail {

#if defined(__x86_64__)

namespace {

constexpr int kLowBits = 11;

/// Two taps' weights as pairs of 16-bit numbers: the high and the low parts.
struct WeightPair {
  std::int32_t high, low;
};

WeightPair split(const std::int32_t* two) {
  const auto pack = [](std::int32_t first, std::int32_t second) { return first | second << 16; };
  const std::int32_t mask = (1 << kLowBits) - 1;
  return {pack(two[0] >> kLowBits, two[1] >> kLowBits), pack(two[0] & mask, two[1] & mask)};
}

std::vector<WeightPair> split_all(const AxisWeights& axis) {
  std::vector<WeightPair> pairs(axis.weights.size() / 2);
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    pairs[i] = split(axis.weights.data() + 2 * i);
  }
  return pairs;
}

/// Eight weighted sums on their way to bytes.
struct Sums {
  __m256i high, low;
};

DETFORGE_AVX2 inline Sums zero_sums() {
  return {_mm256_setzero_si256(), _mm256_setzero_si256()};
}

DETFORGE_AVX2 inline void add_pairs(Sums& sums, __m256i pixels, __m256i high, __m256i low) {
  sums.high = _mm256_add_epi32(sums.high, _mm256_madd_epi16(pixels, high));
  sums.low = _mm256_add_epi32(sums.low, _mm256_madd_epi16(pixels, low));
}

DETFORGE_AVX2 inline __m256i rounded(const Sums& sums) {
  const __m256i half = _mm256_set1_epi32(1 << (kPrecisionBits - 1));
  const __m256i whole = _mm256_add_epi32(_mm256_slli_epi32(sums.high, kLowBits), sums.low);
  return _mm256_srai_epi32(_mm256_add_epi32(whole, half), kPrecisionBits);
}

/// b0 g0 r0 b1 g1 r1 ... of two neighbouring pixels -> 16-bit pairs (b0 b1) (g0 g1) (r0 r1) in each
/// half.
DETFORGE_AVX2 inline __m256i pair_channels(__m256i bytes) {
  const __m256i order =
      _mm256_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1,  //
                       0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1);
  return _mm256_shuffle_epi8(bytes, order);
}

DETFORGE_AVX2 inline __m128i load_8(const std::uint8_t* from) {
  return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from));
}

DETFORGE_AVX2 inline __m256i both_halves(std::int32_t first, std::int32_t second) {
  return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_set1_epi32(first)),
                                 _mm_set1_epi32(second), 1);
}

/// The taps of one axis in the form the row kernel reads.
struct RowPlan {
  const AxisWeights& axis;
  std::vector<WeightPair> pairs;
};

/// Two output pixels, x and x2, as b g r 0 in each half's low four bytes.
DETFORGE_AVX2 inline __m256i two_pixels(const std::uint8_t* in,
                                        const RowPlan& plan,
                                        std::size_t x,
                                        std::size_t x2) {
  const std::int64_t taps = std::max(plan.axis.count[x], plan.axis.count[x2]);
  const std::size_t stride = static_cast<std::size_t>(plan.axis.taps / 2);
  const WeightPair* pairs = plan.pairs.data() + x * stride;
  const WeightPair* pairs2 = plan.pairs.data() + x2 * stride;
  const std::uint8_t* from = in + plan.axis.first[x] * 3;
  const std::uint8_t* from2 = in + plan.axis.first[x2] * 3;
  Sums sums = zero_sums();
  for (std::int64_t k = 0; k < taps; k += 2, from += 6, from2 += 6, ++pairs, ++pairs2) {
    const __m256i bytes =
        _mm256_inserti128_si256(_mm256_castsi128_si256(load_8(from)), load_8(from2), 1);
    add_pairs(sums, pair_channels(bytes), both_halves(pairs->high, pairs2->high),
              both_halves(pairs->low, pairs2->low));
  }
  const __m256i words = _mm256_packs_epi32(rounded(sums), _mm256_setzero_si256());
  return _mm256_packus_epi16(words, words);
}

/// One row. `in` may be read, and `out` written, up to a few bytes behind the row's end.
DETFORGE_AVX2 void resample_row(const std::uint8_t* in,
                                std::uint8_t* out,
                                std::int64_t width,
                                const RowPlan& plan) {
  for (std::int64_t x = 0; x < width; x += 2) {
    const std::int64_t x2 = std::min(x + 1, width - 1);
    const __m256i pixels =
        two_pixels(in, plan, static_cast<std::size_t>(x), static_cast<std::size_t>(x2));
    const std::int32_t first = _mm_cvtsi128_si32(_mm256_castsi256_si128(pixels));
    const std::int32_t second = _mm_cvtsi128_si32(_mm256_extracti128_si256(pixels, 1));
    std::memcpy(out + 3 * x, &first, 4);
    std::memcpy(out + 3 * x2, &second, 4);
  }
}

/// 32 bytes of one output row from rows `in`, `in + stride`, ... Each lane of unpacked words keeps
/// its place, so that the packs at the end restore the order.
DETFORGE_AVX2 inline void column_block(const std::uint8_t* in,
                                       std::uint8_t* out,
                                       std::int64_t stride,
                                       std::int64_t count,
                                       const WeightPair* pairs) {
  Sums sums[4] = {zero_sums(), zero_sums(), zero_sums(), zero_sums()};
  const __m256i zero = _mm256_setzero_si256();
  for (std::int64_t k = 0; k < count; k += 2, in += 2 * stride, ++pairs) {
    const std::uint8_t* next = k + 1 < count ? in + stride : in;  // the missing tap weighs 0
    const __m256i upper = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(in));
    const __m256i lower = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(next));
    const __m256i low_bytes = _mm256_unpacklo_epi8(upper, lower),
                  high_bytes = _mm256_unpackhi_epi8(upper, lower);
    const __m256i high = _mm256_set1_epi32(pairs->high), low = _mm256_set1_epi32(pairs->low);
    add_pairs(sums[0], _mm256_unpacklo_epi8(low_bytes, zero), high, low);
    add_pairs(sums[1], _mm256_unpackhi_epi8(low_bytes, zero), high, low);
    add_pairs(sums[2], _mm256_unpacklo_epi8(high_bytes, zero), high, low);
    add_pairs(sums[3], _mm256_unpackhi_epi8(high_bytes, zero), high, low);
  }
  const __m256i first = _mm256_packs_epi32(rounded(sums[0]), rounded(sums[1]));
  const __m256i second = _mm256_packs_epi32(rounded(sums[2]), rounded(sums[3]));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), _mm256_packus_epi16(first, second));
}

/// The bytes of a row that fill no block of 32.
void column_tail(const std::uint8_t* in,
                 std::uint8_t* out,
                 std::int64_t stride,
                 std::int64_t count,
                 const std::int32_t* weights,
                 std::int64_t from) {
  for (std::int64_t i = from; i < stride; ++i) {
    std::int32_t sum = 1 << (kPrecisionBits - 1);
    for (std::int64_t k = 0; k < count; ++k) {
      sum += in[k * stride + i] * weights[k];
    }
    out[i] = static_cast<std::uint8_t>(std::clamp(sum >> kPrecisionBits, 0, 255));
  }
}

}  // namespace

bool has_avx2() {
  return __builtin_cpu_supports("avx2") != 0;
}

void resample_rows_avx2(const RowsView& view, const AxisWeights& axis) {
  constexpr std::size_t kSpare = 16;  // the last taps read and the last pixel writes past the row
  const auto in_bytes = static_cast<std::size_t>(view.in_width * 3),
             out_bytes = static_cast<std::size_t>(view.out_width * 3);
  // Weights of 0 may point past the row by all unused taps of the neighbouring pixel.
  std::vector<std::uint8_t> in(in_bytes + static_cast<std::size_t>(axis.taps) * 3 + kSpare, 0),
      out(out_bytes + kSpare);
  const RowPlan plan{axis, split_all(axis)};
  for (std::int64_t y = 0; y < view.rows; ++y) {
    std::memcpy(in.data(), view.in + static_cast<std::size_t>(y) * in_bytes, in_bytes);
    resample_row(in.data(), out.data(), view.out_width, plan);
    std::memcpy(view.out + static_cast<std::size_t>(y) * out_bytes, out.data(), out_bytes);
  }
}

DETFORGE_AVX2 void resample_columns_avx2(const ColumnsView& view, const AxisWeights& axis) {
  const std::vector<WeightPair> pairs = split_all(axis);
  for (std::int64_t y = 0; y < view.out_rows; ++y) {
    const std::uint8_t* in = view.in + axis.first[static_cast<std::size_t>(y)] * view.stride;
    std::uint8_t* out = view.out + y * view.stride;
    const std::int64_t count = axis.count[static_cast<std::size_t>(y)];
    std::int64_t i = 0;
    for (; i + 32 <= view.stride; i += 32) {
      column_block(in + i, out + i, view.stride, count, pairs.data() + y * axis.taps / 2);
    }
    column_tail(in, out, view.stride, count, axis.weights.data() + y * axis.taps, i);
  }
}

#else

bool has_avx2() {
  return false;
}
void resample_rows_avx2(const RowsView& view, const AxisWeights& axis) {
  resample_rows_portable(view, axis);
}
void resample_columns_avx2(const ColumnsView& view, const AxisWeights& axis) {
  resample_columns_portable(view, axis);
}

#endif

}  // namespace detforge::resize_detail
