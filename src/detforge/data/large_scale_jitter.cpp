#include "detforge/data/large_scale_jitter.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "detforge/core/error.h"
#include "detforge/data/sample_geometry.h"

namespace detforge {
namespace {

void check_size(ImageSize size) {
  DETFORGE_CHECK(size.height > 0 && size.width > 0,
                 fmt::format("large-scale jitter to {} x {} pixels", size.height, size.width),
                 "give a positive size");
}

}  // namespace

ResizeScale::ResizeScale(Options options, Interpolation interpolation)
    : options_(options), interpolation_(interpolation) {
  check_size(options.target);
  DETFORGE_CHECK(
      options.min_scale > 0 && options.min_scale <= options.max_scale &&
          std::isfinite(options.max_scale),
      fmt::format("large-scale jitter from {} to {}", options.min_scale, options.max_scale),
      "give the lowest and the highest factor, above 0");
}

void ResizeScale::apply(Sample& sample, Rng& rng) const {
  const double factor = rng.uniform(options_.min_scale, options_.max_scale);
  const auto height = static_cast<double>(sample.image.height),
             width = static_cast<double>(sample.image.width);
  const double scale = std::min(static_cast<double>(options_.target.height) * factor / height,
                                static_cast<double>(options_.target.width) * factor / width);
  const auto rounded = [](double side) {
    return std::max<std::int64_t>(1, std::llrint(side));  // ties to even, as NumPy rounds
  };
  resize_sample_(sample, {rounded(height * scale), rounded(width * scale)}, interpolation_);
}

FixedSizeCrop::FixedSizeCrop(Options options) : options_(options) {
  check_size(options.size);
}

void FixedSizeCrop::apply(Sample& sample, Rng& rng) const {
  const double place = rng.uniform();
  const auto offset = [place](std::int64_t image, std::int64_t window) {
    const auto most = static_cast<double>(std::max<std::int64_t>(0, image - window));
    return static_cast<std::int64_t>(std::llrint(most * place));
  };
  cut_sample_(sample,
              {.left = offset(sample.image.width, options_.size.width),
               .top = offset(sample.image.height, options_.size.height),
               .size = options_.size},
              options_.padding);
}

}  // namespace detforge
