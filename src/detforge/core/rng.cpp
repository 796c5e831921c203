#include "detforge/core/rng.h"

#include <cmath>

namespace detforge {
namespace {

constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15ULL;

std::uint64_t finalise(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

}  // namespace

std::uint64_t mix64(std::uint64_t a, std::uint64_t b) {
  return finalise(finalise(a + kGolden) ^ (b * kGolden + 0x632BE59BD9B4E019ULL));
}

Rng::Rng(std::uint64_t seed, RngPurpose purpose, std::uint64_t a, std::uint64_t b)
    : key_(mix64(mix64(mix64(seed, static_cast<std::uint64_t>(purpose)), a), b)) {}

std::uint64_t Rng::next_u64() {
  return finalise(key_ + ++counter_ * kGolden);
}

double Rng::uniform() {
  return static_cast<double>(next_u64() >> 11) * 0x1.0p-53;
}

std::uint64_t Rng::below(std::uint64_t n) {
  const std::uint64_t limit =
      UINT64_MAX - UINT64_MAX % n;  // values above it would favour small results
  std::uint64_t x = next_u64();
  while (x >= limit) {
    x = next_u64();
  }
  return x % n;
}

double Rng::normal() {
  constexpr double kTwoPi = 6.283185307179586476925;
  const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
  return radius * std::cos(kTwoPi * uniform());
}

}  // namespace detforge
