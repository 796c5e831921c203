#include "detforge/data/resize_range.h"

#include <algorithm>

#include <fmt/format.h>

#include "detforge/core/error.h"
#include "detforge/data/sample_geometry.h"

namespace detforge {

ImageSize keep_ratio_size(ImageSize size, std::array<std::int64_t, 2> edges) {
  const auto [shorter, longer] = std::minmax(size.height, size.width);
  const auto [short_edge, long_edge] = std::minmax(edges[0], edges[1]);
  const double scale = std::min(static_cast<double>(long_edge) / static_cast<double>(longer),
                                static_cast<double>(short_edge) / static_cast<double>(shorter));
  const auto scaled = [scale](std::int64_t side) {
    return std::max<std::int64_t>(
        1, static_cast<std::int64_t>(static_cast<double>(side) * scale + 0.5));
  };
  return {scaled(size.height), scaled(size.width)};
}

ResizeRange::ResizeRange(const Options& options, Interpolation interpolation)
    : options_(options), interpolation_(interpolation) {
  std::sort(options_.low.begin(), options_.low.end());
  std::sort(options_.high.begin(), options_.high.end());
  const auto &low = options_.low, &high = options_.high;
  DETFORGE_CHECK(low[0] > 0 && low[0] <= high[0] && low[1] <= high[1],
                 fmt::format("cannot resize to between ({}, {}) and ({}, {})", low[1], low[0],
                             high[1], high[0]),
                 "give the smaller edges first, all positive");
}

void ResizeRange::apply(Sample& sample, Rng& rng) const {
  const std::int64_t longer = rng.between(options_.low[1], options_.high[1]);
  const std::int64_t shorter = rng.between(options_.low[0], options_.high[0]);
  resize_sample_(sample, keep_ratio_size(sample.image.size(), {longer, shorter}), interpolation_);
}

}  // namespace detforge
