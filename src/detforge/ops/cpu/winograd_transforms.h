#pragma once

#include "detforge/ops/cpu/simd.h"

/// The one-dimensional transforms of Winograd's F(4,3) with the points 0, +-a, +-b, infinity,
/// a = sqrt(1/2), b = sqrt(2) (Lavin and Gray, arXiv:1509.09308; the points: docs/decisions/0006).
/// Textbooks take 0, +-1, +-2: the same cost, twice to four times the rounding error.
///   y = A^T [ (G g) . (B^T d) ]   4 outputs, 3 taps, 6 inputs
/// The two-dimensional forms apply them along columns and then along rows.
namespace detforge::cpu {
namespace {

using Register = Vector::Register;

constexpr float kA = 0.70710678118654752F, kB = 1.41421356237309505F;
constexpr float kA2 = 0.5F, kB2 = 2.0F;

/// B^T: 6 values `step` apart to 6 values `step` apart.
template <int kStep>
inline __attribute__((always_inline)) void transform_input(const Register* d, Register* out) {
  const Register a2 = Vector::set(kA2), b2 = Vector::set(kB2), sum = Vector::set(kA2 + kB2);
  const Register d0 = d[0], d1 = d[kStep], d2 = d[2 * kStep], d3 = d[3 * kStep], d4 = d[4 * kStep],
                 d5 = d[5 * kStep];
  const Register even_a = Vector::fnma(b2, d2, d4), odd_a = Vector::fnma(b2, d1, d3);
  const Register even_b = Vector::fnma(a2, d2, d4), odd_b = Vector::fnma(a2, d1, d3);
  // a^2 b^2 = 1 with these points.
  out[0] = Vector::add(d0, Vector::fnma(sum, d2, d4));
  out[kStep] = Vector::fma(Vector::set(kA), odd_a, even_a);
  out[2 * kStep] = Vector::fnma(Vector::set(kA), odd_a, even_a);
  out[3 * kStep] = Vector::fma(Vector::set(kB), odd_b, even_b);
  out[4 * kStep] = Vector::fnma(Vector::set(kB), odd_b, even_b);
  out[5 * kStep] = Vector::add(d1, Vector::fnma(sum, d3, d5));
}

/// A^T: 6 values `kFrom` apart to 4 values `kTo` apart.
template <int kFrom, int kTo>
inline __attribute__((always_inline)) void transform_output(const Register* m, Register* out) {
  const Register sum_a = Vector::add(m[kFrom], m[2 * kFrom]);
  const Register sum_b = Vector::add(m[3 * kFrom], m[4 * kFrom]);
  const Register dif_a = Vector::mul(Vector::set(kA), Vector::sub(m[kFrom], m[2 * kFrom]));
  const Register dif_b = Vector::mul(Vector::set(kB), Vector::sub(m[3 * kFrom], m[4 * kFrom]));
  const Register a2 = Vector::set(kA2), b2 = Vector::set(kB2);
  out[0] = Vector::add(Vector::add(m[0], sum_a), sum_b);
  out[kTo] = Vector::add(dif_a, dif_b);
  out[2 * kTo] = Vector::fma(a2, sum_a, Vector::mul(b2, sum_b));
  out[3 * kTo] = Vector::fma(a2, dif_a, Vector::fma(b2, dif_b, m[5 * kFrom]));
}

/// A: 4 values `kFrom` apart to 6 values `kTo` apart.
template <int kFrom, int kTo>
inline __attribute__((always_inline)) void transform_output_gradient(const Register* g,
                                                                     Register* out) {
  const Register a2 = Vector::set(kA2), b2 = Vector::set(kB2);
  const Register g0 = g[0], g1 = g[kFrom], g2 = g[2 * kFrom], g3 = g[3 * kFrom];
  const Register even_a = Vector::fma(a2, g2, g0), odd_a = Vector::fma(a2, g3, g1);
  const Register even_b = Vector::fma(b2, g2, g0), odd_b = Vector::fma(b2, g3, g1);
  out[0] = g0;
  out[kTo] = Vector::fma(Vector::set(kA), odd_a, even_a);
  out[2 * kTo] = Vector::fnma(Vector::set(kA), odd_a, even_a);
  out[3 * kTo] = Vector::fma(Vector::set(kB), odd_b, even_b);
  out[4 * kTo] = Vector::fnma(Vector::set(kB), odd_b, even_b);
  out[5 * kTo] = g3;
}

// G's rows: 1 at 0; (1, +-p, p^2) / N(p) at +-p with N(a) = 2 a^2 (a^2 - b^2) = -3/2 and
// N(b) = 2 b^2 (b^2 - a^2) = 6; (0, 0, 1) at infinity.
constexpr float kScaleA = -1.0F / 1.5F, kScaleB = 1.0F / 6.0F;

/// G: 3 values `kFrom` apart to 6 values `kTo` apart.
template <int kFrom, int kTo>
inline __attribute__((always_inline)) void transform_filter(const Register* g, Register* out) {
  const Register g0 = g[0], g1 = g[kFrom], g2 = g[2 * kFrom];
  const Register even_a = Vector::mul(Vector::set(kScaleA), Vector::fma(Vector::set(kA2), g2, g0));
  const Register even_b = Vector::mul(Vector::set(kScaleB), Vector::fma(Vector::set(kB2), g2, g0));
  const Register odd_a = Vector::mul(Vector::set(kScaleA * kA), g1);
  const Register odd_b = Vector::mul(Vector::set(kScaleB * kB), g1);
  out[0] = g0;
  out[kTo] = Vector::add(even_a, odd_a);
  out[2 * kTo] = Vector::sub(even_a, odd_a);
  out[3 * kTo] = Vector::add(even_b, odd_b);
  out[4 * kTo] = Vector::sub(even_b, odd_b);
  out[5 * kTo] = g2;
}

/// G^T: 6 values `kFrom` apart to 3 values `kTo` apart.
template <int kFrom, int kTo>
inline __attribute__((always_inline)) void transform_filter_gradient(const Register* s,
                                                                     Register* out) {
  const Register sum_a = Vector::mul(Vector::set(kScaleA), Vector::add(s[kFrom], s[2 * kFrom]));
  const Register sum_b = Vector::mul(Vector::set(kScaleB), Vector::add(s[3 * kFrom], s[4 * kFrom]));
  const Register dif_a =
      Vector::mul(Vector::set(kScaleA * kA), Vector::sub(s[kFrom], s[2 * kFrom]));
  const Register dif_b =
      Vector::mul(Vector::set(kScaleB * kB), Vector::sub(s[3 * kFrom], s[4 * kFrom]));
  out[0] = Vector::add(s[0], Vector::add(sum_a, sum_b));
  out[kTo] = Vector::add(dif_a, dif_b);
  out[2 * kTo] =
      Vector::fma(Vector::set(kA2), sum_a, Vector::fma(Vector::set(kB2), sum_b, s[5 * kFrom]));
}

}  // namespace
}  // namespace detforge::cpu
