#include "detforge/data/darknet_jitter.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "detforge/core/error.h"
#include "detforge/data/sample_geometry.h"

namespace detforge {
namespace {

std::int64_t whole(double value) {
  return static_cast<std::int64_t>(value);
}

}  // namespace

DarknetJitter::DarknetJitter(const Options& options, Interpolation interpolation)
    : options_(options), interpolation_(interpolation) {
  DETFORGE_CHECK(
      options.size.height > 0 && options.size.width > 0,
      fmt::format("Darknet's jitter to {} x {} pixels", options.size.height, options.size.width),
      "give a positive size");
  DETFORGE_CHECK(options.jitter >= 0 && options.jitter < 1 && options.min_scale > 0 &&
                     options.min_scale <= options.max_scale && std::isfinite(options.max_scale),
                 fmt::format("Darknet's jitter of {}, scaled by {} to {}", options.jitter,
                             options.min_scale, options.max_scale),
                 "give a jitter from 0 to below 1, and the lowest and highest scale, above 0");
}

void DarknetJitter::apply(Sample& sample, Rng& rng) const {
  const auto jittered = [&](std::int64_t side) {
    const double most = options_.jitter * static_cast<double>(side);
    return static_cast<double>(side) + rng.uniform(-most, most);
  };
  const double jittered_width = jittered(sample.image.width);
  const double ratio = jittered_width / jittered(sample.image.height);
  const double scale = rng.uniform(options_.min_scale, options_.max_scale);
  const auto width = static_cast<double>(options_.size.width),
             height = static_cast<double>(options_.size.height);
  const double new_width = ratio < 1 ? scale * height * ratio : scale * width;
  const double new_height = ratio < 1 ? scale * height : scale * width / ratio;
  const ImageSize picture{std::max<std::int64_t>(1, whole(new_height)),
                          std::max<std::int64_t>(1, whole(new_width))};
  const auto place = [&](double room) {
    return whole(rng.uniform(std::min(0.0, room), std::max(0.0, room)));
  };
  const std::int64_t left = place(width - new_width);
  const std::int64_t top = place(height - new_height);
  resize_sample_(sample, picture, interpolation_);
  cut_sample_(sample, {.left = -left, .top = -top, .size = options_.size}, options_.fill);
}

}  // namespace detforge
