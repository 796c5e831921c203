#include "detforge/data/transforms.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "detforge/core/error.h"
#include "detforge/data/flip.h"
#include "detforge/data/resize.h"

namespace detforge {
namespace {

/// Moves all geometry of the sample by two functions of one coordinate each.
template <typename MapX, typename MapY>
void map_instances(Sample& sample, const MapX& map_x, const MapY& map_y) {
  for (Instance& instance : sample.instances) {
    const auto [x1, x2] = std::minmax({map_x(instance.box.x1), map_x(instance.box.x2)});
    const auto [y1, y2] = std::minmax({map_y(instance.box.y1), map_y(instance.box.y2)});
    instance.box = {x1, y1, x2, y2};
    instance.segmentation.rle = {};  // it belongs to the old geometry
    for (auto& polygon : instance.segmentation.polygons) {
      for (std::size_t i = 0; i + 1 < polygon.size(); i += 2) {
        polygon[i] = map_x(polygon[i]);
        polygon[i + 1] = map_y(polygon[i + 1]);
      }
    }
  }
}

/// Uniform in [low, high].
std::int64_t draw_between(std::int64_t low, std::int64_t high, Rng& rng) {
  return low + static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(high - low + 1)));
}

std::int64_t rounded(double value) {
  return static_cast<std::int64_t>(value + 0.5);
}

Image cut(const Image& image, std::int64_t left, std::int64_t top, ImageSize size) {
  Image window{size.height, size.width, {}};
  window.bgr.reserve(static_cast<std::size_t>(size.height * size.width * 3));
  for (std::int64_t y = top; y < top + size.height; ++y) {
    const std::uint8_t* row = image.row(y) + 3 * left;
    window.bgr.insert(window.bgr.end(), row, row + 3 * size.width);
  }
  return window;
}

}  // namespace

// --- ResizeShortestEdge

ResizeShortestEdge::ResizeShortestEdge(Options options) : options_(std::move(options)) {
  const auto& edges = options_.short_edges;
  DETFORGE_CHECK(!edges.empty() && *std::min_element(edges.begin(), edges.end()) > 0,
                 "the lengths of the shorter edge must be positive", "set INPUT.MIN_SIZE_TRAIN");
  DETFORGE_CHECK(options_.style != Style::kRange || (edges.size() == 2 && edges[0] <= edges[1]),
                 "sampling a range needs the lowest and the highest length of the shorter edge",
                 "give two ascending numbers in INPUT.MIN_SIZE_TRAIN");
  DETFORGE_CHECK(options_.max_size > 0, fmt::format("max_size is {}", options_.max_size),
                 "set INPUT.MAX_SIZE_TRAIN");
}

void ResizeShortestEdge::apply(Sample& sample, Rng& rng) const {
  const auto& edges = options_.short_edges;
  const std::int64_t edge = options_.style == Style::kRange
                                ? draw_between(edges[0], edges[1], rng)
                                : edges[static_cast<std::size_t>(rng.below(edges.size()))];
  const ImageSize from = sample.image.size();
  const ImageSize to = shortest_edge_size(from, edge, options_.max_size);
  if (to == from) {
    return;
  }
  sample.image = resize_bilinear(sample.image, to);
  const double scale_x = static_cast<double>(to.width) / static_cast<double>(from.width);
  const double scale_y = static_cast<double>(to.height) / static_cast<double>(from.height);
  map_instances(
      sample, [&](double x) { return x * scale_x; }, [&](double y) { return y * scale_y; });
}

// --- RandomFlip

RandomFlip::RandomFlip(Direction direction, double probability)
    : direction_(direction), probability_(probability) {
  DETFORGE_CHECK(probability >= 0 && probability <= 1,
                 fmt::format("flip probability is {}", probability), "give a number from 0 to 1");
}

void RandomFlip::apply(Sample& sample, Rng& rng) const {
  if (rng.uniform() >= probability_) {
    return;
  }
  const auto same = [](double value) { return value; };
  if (direction_ == Direction::kHorizontal) {
    flip_horizontal_(sample.image);
    const auto width = static_cast<double>(sample.image.width);
    map_instances(
        sample, [&](double x) { return width - x; }, same);
  } else {
    flip_vertical_(sample.image);
    const auto height = static_cast<double>(sample.image.height);
    map_instances(sample, same, [&](double y) { return height - y; });
  }
}

// --- RandomCrop

RandomCrop::RandomCrop(Options options) : options_(options) {
  const auto [first, second] = options_.size;
  const bool relative = options_.type == Type::kRelative || options_.type == Type::kRelativeRange;
  DETFORGE_CHECK(
      first > 0 && second > 0 && (!relative || (first <= 1 && second <= 1)),
      fmt::format("crop size ({}, {}) is impossible", first, second),
      relative ? "relative sizes lie above 0 and up to 1" : "absolute sizes are positive pixels");
  DETFORGE_CHECK(options_.type != Type::kAbsoluteRange || first <= second,
                 fmt::format("crop range ({}, {}) is empty", first, second),
                 "give (lowest, highest)");
}

ImageSize RandomCrop::crop_size(ImageSize image, Rng& rng) const {
  const auto height = static_cast<double>(image.height), width = static_cast<double>(image.width);
  const auto [first, second] = options_.size;
  switch (options_.type) {
    case Type::kRelative:
      return {rounded(height * first), rounded(width * second)};
    case Type::kRelativeRange: {
      const double high = rng.uniform(first, 1.0), wide = rng.uniform(second, 1.0);
      return {rounded(height * high), rounded(width * wide)};
    }
    case Type::kAbsolute:
      return {std::min(image.height, rounded(first)), std::min(image.width, rounded(second))};
    case Type::kAbsoluteRange:
      break;
  }
  const auto draw = [&, low = rounded(first), high = rounded(second)](std::int64_t side) {
    return draw_between(std::min(side, low), std::min(side, high), rng);
  };
  const std::int64_t high = draw(image.height);
  return {high, draw(image.width)};
}

void RandomCrop::apply(Sample& sample, Rng& rng) const {
  const ImageSize image = sample.image.size();
  ImageSize window = crop_size(image, rng);
  window = {std::max<std::int64_t>(1, window.height), std::max<std::int64_t>(1, window.width)};
  const std::int64_t top = draw_between(0, image.height - window.height, rng);
  const std::int64_t left = draw_between(0, image.width - window.width, rng);
  if (window == image) {
    return;
  }
  sample.image = cut(sample.image, left, top, window);
  map_instances(
      sample, [&](double x) { return x - static_cast<double>(left); },
      [&](double y) { return y - static_cast<double>(top); });
}

// --- after the transforms

FilterCounts filter_instances(Sample& sample) {
  constexpr double kSmallestSide = 1e-5;  // Detectron2's box_threshold
  const auto width = static_cast<double>(sample.image.width),
             height = static_cast<double>(sample.image.height);
  FilterCounts counts;
  for (Instance& instance : sample.instances) {
    const Box& box = instance.box;
    const Box clipped{std::clamp(box.x1, 0.0, width), std::clamp(box.y1, 0.0, height),
                      std::clamp(box.x2, 0.0, width), std::clamp(box.y2, 0.0, height)};
    counts.clipped += clipped == box ? 0 : 1;
    instance.box = clipped;
  }
  counts.dropped =
      static_cast<std::int64_t>(std::erase_if(sample.instances, [](const Instance& instance) {
        return !(instance.box.width() > kSmallestSide && instance.box.height() > kSmallestSide);
      }));
  return counts;
}

// --- TransformPipeline

TransformPipeline::TransformPipeline(const Options& options) {
  if (options.crop) {
    transforms_.push_back(std::make_unique<RandomCrop>(options.crop_options));
  }
  if (options.min_sizes != std::vector<std::int64_t>{0}) {
    transforms_.push_back(std::make_unique<ResizeShortestEdge>(
        ResizeShortestEdge::Options{.short_edges = options.min_sizes,
                                    .max_size = options.max_size,
                                    .style = options.sample_style}));
  }
  if (options.flip != Flip::kNone) {
    const auto direction = options.flip == Flip::kHorizontal ? RandomFlip::Direction::kHorizontal
                                                             : RandomFlip::Direction::kVertical;
    transforms_.push_back(std::make_unique<RandomFlip>(direction, options.flip_probability));
  }
}

FilterCounts TransformPipeline::apply(Sample& sample, Rng& rng) const {
  for (const auto& transform : transforms_) {
    transform->apply(sample, rng);
  }
  return filter_instances(sample);
}

}  // namespace detforge
