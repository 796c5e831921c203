// Both passes with AVX2, exact to the last bit. A 22-bit weight does not fit the 16-bit
// multiply-add, so it is split, w = high * 2^11 + low, and sum(p * w) = (sum(p * high) << 11) +
// sum(p * low). One multiply-add takes two taps for eight values, which makes this twice as fast as
// 32-bit multiplication.
#include "detforge/data/resize_kernels.h"

#if defined(__x86_64__)

#include <algorithm>
#include <cstring>
#include <immintrin.h>

#define DETFORGE_AVX2 __attribute__((target("avx2")))

namespace detforge::resize_detail {
namespace {

constexpr int kLowBits = 11;

/// Two taps' weights as pairs of 16-bit numbers: the high and the low parts.
struct WeightPair {
  std::int32_t high, low;
};

WeightPair split(const std::int32_t* two) {
  const std::int32_t mask = (1 << kLowBits) - 1;
  return {two[0] >> kLowBits | two[1] >> kLowBits << 16, (two[0] & mask) | (two[1] & mask) << 16};
}

/// `kept` pairs of every output pixel, padded by one pixel so that two can be loaded at once.
std::vector<WeightPair> split_all(const AxisWeights& axis, std::int64_t kept) {
  std::vector<WeightPair> pairs;
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(axis.first.size()); ++i) {
    for (std::int64_t k = 0; k < kept; ++k) {
      pairs.push_back(split(axis.weights.data() + i * axis.taps + 2 * k));
    }
  }
  pairs.resize(pairs.size() + static_cast<std::size_t>(4 * kept));
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
  const __m256i whole = _mm256_add_epi32(_mm256_slli_epi32(sums.high, kLowBits), sums.low);
  return _mm256_srai_epi32(_mm256_add_epi32(whole, _mm256_set1_epi32(kHalf)), kPrecisionBits);
}

/// b0 g0 r0 b1 g1 r1 ... of two neighbouring pixels -> 16-bit pairs (b0 b1) (g0 g1) (r0 r1) in each
/// half.
DETFORGE_AVX2 inline __m256i pair_channels(__m256i bytes) {
  const __m128i order = _mm_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1);
  return _mm256_shuffle_epi8(bytes, _mm256_broadcastsi128_si256(order));
}

DETFORGE_AVX2 inline __m256i load_two(const std::uint8_t* first, const std::uint8_t* second) {
  const auto load = [](const std::uint8_t* from) __attribute__((target("avx2"))) {
    return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from));
  };
  return _mm256_inserti128_si256(_mm256_castsi128_si256(load(first)), load(second), 1);
}

/// Weighted sums of pixel x (low half) and x + 1 (high half), as b g r 0.
DETFORGE_AVX2 inline __m256i two_pixels(const std::uint8_t* in,
                                        const std::int64_t* first,
                                        const WeightPair* pairs,
                                        std::int64_t kept) {
  const std::uint8_t* from = in + first[0] * 3;
  const std::uint8_t* from2 = in + first[1] * 3;
  const __m256i spread_high = _mm256_setr_epi32(0, 0, 0, 0, 2, 2, 2, 2);
  const __m256i spread_low = _mm256_setr_epi32(1, 1, 1, 1, 3, 3, 3, 3);
  Sums sums = zero_sums();
  for (std::int64_t k = 0; k < kept; ++k, from += 6, from2 += 6) {
    std::int64_t both[2];
    std::memcpy(&both[0], pairs + k, 8);
    std::memcpy(&both[1], pairs + kept + k, 8);
    const __m256i weights = _mm256_castsi128_si256(_mm_set_epi64x(both[1], both[0]));
    add_pairs(sums, pair_channels(load_two(from, from2)),
              _mm256_permutevar8x32_epi32(weights, spread_high),
              _mm256_permutevar8x32_epi32(weights, spread_low));
  }
  return rounded(sums);
}

/// Four pixels as 12 bytes and 4 to be overwritten by the next ones.
DETFORGE_AVX2 inline __m128i pack_four(__m256i first, __m256i second) {
  const __m256i words = _mm256_packs_epi32(first, second);  // pixels 0 2 | 1 3
  const __m256i bytes = _mm256_packus_epi16(words, words);  // b g r 0 b g r 0 twice in each half
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 0, 0, 0, 0);
  const __m128i pixels = _mm256_castsi256_si128(_mm256_permutevar8x32_epi32(bytes, order));
  return _mm_shuffle_epi8(pixels,
                          _mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1));
}

/// 32 bytes of the weighted sum of `count` rows, from byte `at`. Each lane of unpacked words keeps
/// its place, so that the packs at the end restore the order.
DETFORGE_AVX2 inline __m256i column_block(const std::uint8_t* const* rows,
                                          std::int64_t count,
                                          const WeightPair* pairs,
                                          std::int64_t at) {
  Sums sums[4] = {zero_sums(), zero_sums(), zero_sums(), zero_sums()};
  const __m256i zero = _mm256_setzero_si256();
  for (std::int64_t k = 0; k < count; k += 2, ++pairs) {
    const std::uint8_t* next = rows[k + 1 < count ? k + 1 : k];  // a missing tap weighs 0
    const __m256i upper = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(rows[k] + at));
    const __m256i lower = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(next + at));
    const __m256i front = _mm256_unpacklo_epi8(upper, lower),
                  back = _mm256_unpackhi_epi8(upper, lower);
    const __m256i high = _mm256_set1_epi32(pairs->high), low = _mm256_set1_epi32(pairs->low);
    add_pairs(sums[0], _mm256_unpacklo_epi8(front, zero), high, low);
    add_pairs(sums[1], _mm256_unpackhi_epi8(front, zero), high, low);
    add_pairs(sums[2], _mm256_unpacklo_epi8(back, zero), high, low);
    add_pairs(sums[3], _mm256_unpackhi_epi8(back, zero), high, low);
  }
  return _mm256_packus_epi16(_mm256_packs_epi32(rounded(sums[0]), rounded(sums[1])),
                             _mm256_packs_epi32(rounded(sums[2]), rounded(sums[3])));
}

class Avx2Kernels : public Kernels {
 public:
  Avx2Kernels(const AxisWeights& x, const AxisWeights& y, std::int64_t in_width)
      : y_(y),
        in_bytes_(static_cast<std::size_t>(in_width * 3)),
        out_width_(static_cast<std::int64_t>(x.first.size())),
        x_pairs_kept_((x.most + 1) / 2),
        x_first_(x.first),
        x_pairs_(split_all(x, x_pairs_kept_)),
        y_pairs_(split_all(y, y.taps / 2)),
        in_(in_bytes_ + static_cast<std::size_t>(6 * x_pairs_kept_) + 16) {
    x_first_.resize(x_first_.size() + 4);  // pixels behind the end, whose weights are 0
  }

  /// The input is copied, because the last taps read, with weight 0, behind the row's end.
  DETFORGE_AVX2 void row(const std::uint8_t* in, std::uint8_t* out) override {
    std::memcpy(in_.data(), in, in_bytes_);
    // Growing takes one pair of taps; as a constant it lets the compiler drop the loop over taps.
    if (x_pairs_kept_ == 1) {
      resample_row(out, 1);
    } else {
      resample_row(out, x_pairs_kept_);
    }
  }

  DETFORGE_AVX2 void column(const std::uint8_t* const* rows,
                            std::uint8_t* out,
                            std::int64_t y,
                            std::int64_t bytes) override {
    const std::int64_t count = y_.count[static_cast<std::size_t>(y)];
    const WeightPair* pairs = y_pairs_.data() + y * y_.taps / 2;
    std::int64_t at = 0;
    for (; at + 32 <= bytes; at += 32) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + at),
                          column_block(rows, count, pairs, at));
    }
    for (const std::int32_t* weights = y_.weights.data() + y * y_.taps; at < bytes; ++at) {
      std::int32_t sum = kHalf;
      for (std::int64_t k = 0; k < count; ++k) {
        sum += rows[k][at] * weights[k];
      }
      out[at] = to_byte(sum);
    }
  }

 private:
  /// Writes whole groups of four pixels: up to 9 bytes, and 4 of filling, behind the end.
  DETFORGE_AVX2 inline void resample_row(std::uint8_t* out, std::int64_t kept) const {
    for (std::int64_t x = 0; x < out_width_; x += 4) {
      const std::int64_t* first = x_first_.data() + x;
      const WeightPair* pairs = x_pairs_.data() + x * kept;
      const __m256i front = two_pixels(in_.data(), first, pairs, kept);
      const __m256i back = two_pixels(in_.data(), first + 2, pairs + 2 * kept, kept);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out + 3 * x), pack_four(front, back));
    }
  }

  const AxisWeights& y_;
  std::size_t in_bytes_;
  std::int64_t out_width_;
  std::int64_t x_pairs_kept_;  ///< pairs of taps per output pixel
  std::vector<std::int64_t> x_first_;
  std::vector<WeightPair> x_pairs_, y_pairs_;
  std::vector<std::uint8_t> in_;
};

}  // namespace

std::unique_ptr<Kernels> make_avx2_kernels(const AxisWeights& x,
                                           const AxisWeights& y,
                                           std::int64_t in_width) {
  if (__builtin_cpu_supports("avx2") == 0) {
    return nullptr;
  }
  return std::make_unique<Avx2Kernels>(x, y, in_width);
}

}  // namespace detforge::resize_detail

#else

namespace detforge::resize_detail {
std::unique_ptr<Kernels> make_avx2_kernels(const AxisWeights&, const AxisWeights&, std::int64_t) {
  return nullptr;
}
}  // namespace detforge::resize_detail

#endif
