#include "detforge/data/mixup.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "detforge/core/error.h"
#include "detforge/data/sample_geometry.h"

namespace detforge {
namespace {

/// Gamma(shape, 1). Ref: Marsaglia and Tsang, ACM TOMS 26(3), 2000; below 1 by Gamma(shape + 1) *
/// U^(1/shape).
double draw_gamma(double shape, Rng& rng) {
  if (shape < 1) {
    const double boosted = draw_gamma(shape + 1, rng);
    return boosted * std::pow(1 - rng.uniform(), 1 / shape);
  }
  const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  while (true) {
    const double x = rng.normal(), root = 1 + c * x;
    const double v = root * root * root, u = 1 - rng.uniform();
    if (v > 0 && std::log(u) < x * x / 2 + d - d * v + d * std::log(v)) {
      return d * v;
    }
  }
}

double draw_weight(double alpha, Rng& rng) {
  const double first = draw_gamma(alpha, rng), second = draw_gamma(alpha, rng);
  const double sum = first + second;
  return sum > 0 ? first / sum : 0.5;  // both underflow for an alpha near 0 only
}

}  // namespace

void check_mixup(const MixupOptions& options) {
  DETFORGE_CHECK(
      options.probability >= 0 && options.probability <= 1 && options.alpha > 0 &&
          std::isfinite(options.alpha),
      fmt::format("mixup with probability {} and alpha {}", options.probability, options.alpha),
      "give a probability from 0 to 1 and an alpha above 0");
}

double mix_(Sample& sample, Sample other, const MixupOptions& options, Rng& rng) {
  constexpr std::int64_t kOne = 1 << 16;
  const std::int64_t weight = std::llrint(draw_weight(options.alpha, rng) * kOne);
  const ImageSize size{std::max(sample.image.height, other.image.height),
                       std::max(sample.image.width, other.image.width)};
  cut_sample_(sample, {.size = size}, options.padding);
  cut_sample_(other, {.size = size}, options.padding);
  for (std::size_t i = 0; i < sample.image.bgr.size(); ++i) {
    const std::int64_t mixed = weight * sample.image.bgr[i] + (kOne - weight) * other.image.bgr[i];
    sample.image.bgr[i] = static_cast<std::uint8_t>((mixed + kOne / 2) / kOne);
  }
  std::move(other.instances.begin(), other.instances.end(), std::back_inserter(sample.instances));
  return static_cast<double>(weight) / kOne;
}

}  // namespace detforge
