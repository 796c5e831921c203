#pragma once

#include <cstdint>
#include <immintrin.h>

#include "detforge/ops/cpu/map_data.h"

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
  static Register load(const Half* p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  static void store(Half* p, Register x) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                        _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
  static Register load(const BFloat16* p) {
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
  }
  static void store(BFloat16* p, Register x) {
    const __m512i bits = _mm512_castps_si512(x);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i rounded =
        _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7FFF)));
    const __mmask16 is_nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    const __m512i result = _mm512_mask_or_epi32(rounded, is_nan, bits, _mm512_set1_epi32(0x400000));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                        _mm512_cvtepi32_epi16(_mm512_srli_epi32(result, 16)));
  }
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
  static Register load(const Half* p) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static void store(Half* p, Register x) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
  }
  static Register load(const BFloat16* p) {
    const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
  }
  static void store(BFloat16* p, Register x) {
    const __m256i bits = _mm256_castps_si256(x);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i rounded =
        _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFF)));
    const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    const __m256 is_nan = _mm256_cmp_ps(x, x, _CMP_UNORD_Q);
    const __m256i result =
        _mm256_srli_epi32(_mm256_castps_si256(_mm256_blendv_ps(_mm256_castsi256_ps(rounded),
                                                               _mm256_castsi256_ps(quiet), is_nan)),
                          16);
    _mm_storeu_si128(
        reinterpret_cast<__m128i*>(p),
        _mm_packus_epi32(_mm256_castsi256_si128(result), _mm256_extracti128_si256(result, 1)));
  }
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

/// The first `count` values, 1 to kLanes; the other lanes are zero, and their memory is not
/// touched.
template <typename T>
inline __attribute__((always_inline)) Vector::Register load_part(const T* p, std::int64_t count) {
  if constexpr (sizeof(T) == sizeof(float)) {
    return Vector::load_part(p, count);
  } else {
    T values[Vector::kLanes] = {};
    __builtin_memcpy(values, p, static_cast<std::size_t>(count) * sizeof(T));
    return Vector::load(values);
  }
}

template <typename T>
inline __attribute__((always_inline)) void store_part(T* p,
                                                      Vector::Register x,
                                                      std::int64_t count) {
  if constexpr (sizeof(T) == sizeof(float)) {
    Vector::store_part(p, x, count);
  } else {
    T values[Vector::kLanes];
    Vector::store(values, x);
    __builtin_memcpy(p, values, static_cast<std::size_t>(count) * sizeof(T));
  }
}

/// Whole vectors without the detour of a part.
template <typename T>
inline __attribute__((always_inline)) Vector::Register load_some(const T* p, std::int64_t count) {
  return count == Vector::kLanes ? Vector::load(p) : load_part(p, count);
}

template <typename T>
inline __attribute__((always_inline)) void store_some(T* p,
                                                      Vector::Register x,
                                                      std::int64_t count) {
  if (count == Vector::kLanes) {
    Vector::store(p, x);
  } else {
    store_part(p, x, count);
  }
}

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
