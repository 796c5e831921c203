#include "detforge/data/mosaic.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "detforge/core/error.h"
#include "detforge/data/sample_geometry.h"

namespace detforge {
namespace {

/// Where a picture of this size lies that touches the point with a corner: left or right, above or
/// below.
Window at_point(ImageSize picture, std::int64_t x, std::int64_t y, bool right, bool below) {
  return {.left = right ? x : x - picture.width,
          .top = below ? y : y - picture.height,
          .size = picture};
}

ImageSize fitted(ImageSize picture, ImageSize size, double scale) {
  const double factor =
      scale * std::min(static_cast<double>(size.height) / static_cast<double>(picture.height),
                       static_cast<double>(size.width) / static_cast<double>(picture.width));
  const auto scaled = [factor](std::int64_t side) {
    return std::max<std::int64_t>(1, std::llrint(static_cast<double>(side) * factor));
  };
  return {scaled(picture.height), scaled(picture.width)};
}

Box clipped(const Box& box, ImageSize size) {
  const auto width = static_cast<double>(size.width), height = static_cast<double>(size.height);
  return {std::clamp(box.x1, 0.0, width), std::clamp(box.y1, 0.0, height),
          std::clamp(box.x2, 0.0, width), std::clamp(box.y2, 0.0, height)};
}

}  // namespace

Mosaic::Mosaic(const Options& options, Interpolation interpolation)
    : options_(options), interpolation_(interpolation) {
  DETFORGE_CHECK(options.probability >= 0 && options.probability <= 1 &&
                     options.min_visible_frac >= 0 && options.min_visible_frac <= 1 &&
                     options.min_side >= 0,
                 fmt::format("a mosaic with probability {} of objects of which {} is visible",
                             options.probability, options.min_visible_frac),
                 "give numbers from 0 to 1");
  DETFORGE_CHECK(options.size.height > 0 && options.size.width > 0 && options.min_scale > 0 &&
                     options.min_scale <= options.max_scale && std::isfinite(options.max_scale),
                 fmt::format("a mosaic of {} x {} pixels, scaled by {} to {}", options.size.height,
                             options.size.width, options.min_scale, options.max_scale),
                 "give a positive size, and the lowest and highest scale, above 0");
}

std::int64_t Mosaic::compose_(Sample& sample,
                              std::array<Sample, kOthers> others,
                              ImageSize size,
                              Rng& rng) const {
  const double scale = rng.uniform(options_.min_scale, options_.max_scale);
  const auto point = [&](std::int64_t side) {
    const auto length = static_cast<double>(side);
    return std::llrint(length / 2 + scale * length * rng.uniform(-0.5, 0.5));
  };
  const std::int64_t x = point(size.width), y = point(size.height);
  const std::vector<std::int64_t> corners = rng.permutation(kOthers + 1);
  Sample mosaic;
  mosaic.image = plain_image(size, options_.fill);
  std::int64_t removed = 0;
  for (std::size_t i = 0; i <= kOthers; ++i) {
    Sample& tile = i == 0 ? sample : others[i - 1];
    const bool right = corners[i] % 2 == 1, below = corners[i] / 2 == 1;
    const ImageSize picture = fitted(tile.image.size(), size, scale);
    removed += add_(tile, at_point(picture, x, y, right, below), mosaic);
  }
  sample.image = std::move(mosaic.image);
  sample.instances = std::move(mosaic.instances);
  return removed;
}

/// Takes the tile's picture and objects over; returns how many objects were removed.
std::int64_t Mosaic::add_(Sample& tile, const Window& place, Sample& mosaic) const {
  const ImageSize size = mosaic.image.size();
  resize_sample_(tile, place.size, interpolation_);
  place_picture_(mosaic.image, tile.image, place.left, place.top);
  const auto left = static_cast<double>(place.left), top = static_cast<double>(place.top);
  const auto is_hidden = [&](const Instance& object) {
    const Box& box = object.box;
    const Box shown = clipped({box.x1 + left, box.y1 + top, box.x2 + left, box.y2 + top}, size);
    return shown.width() < options_.min_side || shown.height() < options_.min_side ||
           shown.area() < options_.min_visible_frac * box.area();
  };
  const auto removed = std::erase_if(tile.instances, is_hidden);
  cut_instances_(tile.instances, {.left = -place.left, .top = -place.top, .size = size});
  for (Instance& object : tile.instances) {
    object.box = clipped(object.box, size);
    mosaic.instances.push_back(std::move(object));
  }
  return static_cast<std::int64_t>(removed);
}

}  // namespace detforge
