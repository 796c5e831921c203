#pragma once

#include <cstdint>
#include <immintrin.h>

/// One vector of floats per instruction set, with the same members, so that a kernel is written
/// once and compiled for each. A file that includes this is compiled with the flags of its set
/// (ops/CMakeLists.txt) and keeps everything in an unnamed namespace: no function of it can be
/// linked into code for other processors.
namespace detforge::cpu {
namespace {

#if defined(__AVX512F__)
struct Vector {
  using Register = __m512;
  static constexpr int kLanes = 16;
  static constexpr int kTileRows = 14;  ///< 14 x 2 sums, 2 columns and 2 values: 32 registers

  static Register zero() { return _mm512_setzero_ps(); }
  static Register set(float x) { return _mm512_set1_ps(x); }
  static Register load(const float* p) { return _mm512_loadu_ps(p); }
  static void store(float* p, Register x) { _mm512_storeu_ps(p, x); }
  /// The first `count` lanes, 1 to kLanes; the others are zero, and their memory is not touched.
  static Register load_part(const float* p, std::int64_t count) {
    return _mm512_maskz_loadu_ps(first(count), p);
  }
  static void store_part(float* p, Register x, std::int64_t count) {
    _mm512_mask_storeu_ps(p, first(count), x);
  }
  /// p[lane * stride] of the first `count` lanes.
  static Register gather(const float* p, std::int32_t stride, std::int64_t count) {
    const __m512i lane = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    return _mm512_mask_i32gather_ps(_mm512_setzero_ps(), first(count),
                                    _mm512_mullo_epi32(lane, _mm512_set1_epi32(stride)), p, 4);
  }
  static Register add(Register x, Register y) { return _mm512_add_ps(x, y); }
  static Register sub(Register x, Register y) { return _mm512_sub_ps(x, y); }
  static Register mul(Register x, Register y) { return _mm512_mul_ps(x, y); }
  static Register max(Register x, Register y) { return _mm512_max_ps(x, y); }
  static Register fma(Register x, Register y, Register z) { return _mm512_fmadd_ps(x, y, z); }
  static Register fnma(Register x, Register y, Register z) { return _mm512_fnmadd_ps(x, y, z); }
  /// x where the condition is above 0 or NaN, else y.
  static Register select_positive(Register condition, Register x, Register y) {
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(condition, zero(), _CMP_NLE_UQ), y, x);
  }

 private:
  static __mmask16 first(std::int64_t count) {
    return static_cast<__mmask16>((1U << static_cast<unsigned>(count)) - 1U);
  }
};
#elif defined(__AVX2__) && defined(__FMA__)
struct Vector {
  using Register = __m256;
  static constexpr int kLanes = 8;
  static constexpr int kTileRows = 6;  ///< 6 x 2 sums, 2 columns and 2 values: 16 registers

  static Register zero() { return _mm256_setzero_ps(); }
  static Register set(float x) { return _mm256_set1_ps(x); }
  static Register load(const float* p) { return _mm256_loadu_ps(p); }
  static void store(float* p, Register x) { _mm256_storeu_ps(p, x); }
  static Register load_part(const float* p, std::int64_t count) {
    return _mm256_maskload_ps(p, first(count));
  }
  static void store_part(float* p, Register x, std::int64_t count) {
    _mm256_maskstore_ps(p, first(count), x);
  }
  static Register gather(const float* p, std::int32_t stride, std::int64_t count) {
    const __m256i lane = _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0);
    return _mm256_mask_i32gather_ps(_mm256_setzero_ps(), p,
                                    _mm256_mullo_epi32(lane, _mm256_set1_epi32(stride)),
                                    _mm256_castsi256_ps(first(count)), 4);
  }
  static Register add(Register x, Register y) { return _mm256_add_ps(x, y); }
  static Register sub(Register x, Register y) { return _mm256_sub_ps(x, y); }
  static Register mul(Register x, Register y) { return _mm256_mul_ps(x, y); }
  static Register max(Register x, Register y) { return _mm256_max_ps(x, y); }
  static Register fma(Register x, Register y, Register z) { return _mm256_fmadd_ps(x, y, z); }
  static Register fnma(Register x, Register y, Register z) { return _mm256_fnmadd_ps(x, y, z); }
  static Register select_positive(Register condition, Register x, Register y) {
    return _mm256_blendv_ps(y, x, _mm256_cmp_ps(condition, zero(), _CMP_NLE_UQ));
  }

 private:
  static __m256i first(std::int64_t count) {
    const __m256i lane = _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)), lane);
  }
};
#else
#error "compile this file for AVX2 and FMA, or for AVX-512"
#endif

/// Keeps `x` in its register: GCC 12 otherwise reads it from memory again for every
/// multiplication, which halves the speed of the inner loops.
inline __attribute__((always_inline)) void keep_in_register(Vector::Register& x) {
#if defined(__AVX512F__)
  asm("" : "+v"(x));
#else
  asm("" : "+x"(x));
#endif
}

}  // namespace
}  // namespace detforge::cpu
