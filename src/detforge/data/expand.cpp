#include "detforge/data/expand.h"

#include <cmath>

#include <fmt/format.h>

#include "detforge/core/error.h"
#include "detforge/data/sample_geometry.h"

namespace detforge {

Expand::Expand(const Options& options) : options_(options) {
  DETFORGE_CHECK(options.probability >= 0 && options.probability <= 1,
                 fmt::format("expand probability is {}", options.probability),
                 "give a number from 0 to 1");
  DETFORGE_CHECK(options.min_ratio >= 1 && options.min_ratio <= options.max_ratio &&
                     std::isfinite(options.max_ratio),
                 fmt::format("expand by {} to {}", options.min_ratio, options.max_ratio),
                 "give the lowest and the highest ratio, 1 or more");
}

void Expand::apply(Sample& sample, Rng& rng) const {
  if (rng.uniform() >= options_.probability) {
    return;
  }
  const double ratio = rng.uniform(options_.min_ratio, options_.max_ratio);
  const auto height = static_cast<double>(sample.image.height),
             width = static_cast<double>(sample.image.width);
  const auto left = static_cast<std::int64_t>(rng.uniform(0, width * ratio - width));
  const auto top = static_cast<std::int64_t>(rng.uniform(0, height * ratio - height));
  const ImageSize size{static_cast<std::int64_t>(height * ratio),
                       static_cast<std::int64_t>(width * ratio)};
  cut_sample_(sample, {.left = -left, .top = -top, .size = size}, options_.fill);
}

}  // namespace detforge
