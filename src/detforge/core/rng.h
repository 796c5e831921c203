#pragma once

#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

namespace detforge {

/// What a random number is for. Streams of different purposes are independent, so adding a draw to
/// one never shifts another. Values are stored in no file, but changing them changes every run's
/// result.
enum class RngPurpose : std::uint64_t {
  kShuffle = 1,
  kAugment = 2,
  kAnchorSampling = 3,
  kRoiSampling = 4,
  kInit = 5,
  kRepeatFactor = 6,
  kShapes = 7,
  kTest = 8,
  kMultiScale = 9,
  kDropout = 10,
};

/// Mixes two 64-bit words into one (SplitMix64 finaliser, Steele et al., OOPSLA 2014).
std::uint64_t mix64(std::uint64_t a, std::uint64_t b);

/// A counter-based generator: draw i of the stream (seed, purpose, a, b) is a pure function of
/// those numbers and i. State is one counter; nothing is shared, so it is safe to make one per
/// sample in any thread, and results do not depend on the number of threads. Not for cryptography.
///   Rng rng(seed, RngPurpose::kAugment, epoch, sample_index);
///   bool flip = rng.uniform() < 0.5;
class Rng {
 public:
  Rng(std::uint64_t seed, RngPurpose purpose, std::uint64_t a = 0, std::uint64_t b = 0);
  /// Continues from a 64-bit key made elsewhere (ImageBatch::rng_keys).
  explicit Rng(std::uint64_t key) : key_(key) {}

  std::uint64_t next_u64();
  /// In [0, 1), 53 random bits.
  double uniform();
  double uniform(double low, double high) { return low + (high - low) * uniform(); }
  /// In [0, n), without modulo bias. n must be positive.
  std::uint64_t below(std::uint64_t n);
  /// In [low, high], both included. high must not be below low.
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(high - low) + 1));
  }
  /// Standard normal (Box-Muller).
  double normal();

  /// Fisher-Yates; the same permutation for the same stream on every platform.
  template <typename T>
  void shuffle(std::vector<T>& items) {
    for (std::uint64_t i = items.size(); i > 1; --i) {
      std::swap(items[i - 1], items[below(i)]);
    }
  }
  /// A random permutation of 0..n-1.
  std::vector<std::int64_t> permutation(std::int64_t n) {
    std::vector<std::int64_t> order(static_cast<std::size_t>(n));
    std::iota(order.begin(), order.end(), std::int64_t{0});
    shuffle(order);
    return order;
  }

 private:
  std::uint64_t key_;
  std::uint64_t counter_ = 0;
};

}  // namespace detforge
