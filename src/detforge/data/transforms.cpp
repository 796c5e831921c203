#include "detforge/data/transforms.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "detforge/core/error.h"
#include "detforge/data/polygon_clip.h"
#include "detforge/data/sample_geometry.h"
#include "detforge/structures/rle.h"

namespace detforge {
namespace {

std::int64_t rounded(double value) {
  return static_cast<std::int64_t>(value + 0.5);
}

bool has_empty_mask(const Instance& instance) {
  const std::vector<std::uint32_t>& runs = instance.segmentation.rle.counts;
  return !runs.empty() && rle_area(runs) == 0;
}

}  // namespace

// --- ResizeShortestEdge

ResizeShortestEdge::ResizeShortestEdge(Options options, Interpolation interpolation)
    : options_(std::move(options)), interpolation_(interpolation) {
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
                                ? rng.between(edges[0], edges[1])
                                : edges[static_cast<std::size_t>(rng.below(edges.size()))];
  resize_sample_(sample, shortest_edge_size(sample.image.size(), edge, options_.max_size),
                 interpolation_);
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
  if (direction_ == Direction::kHorizontal) {
    flip_sample_horizontal_(sample);
  } else {
    flip_sample_vertical_(sample);
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
    return rng.between(std::min(side, low), std::min(side, high));
  };
  const std::int64_t high = draw(image.height);
  return {high, draw(image.width)};
}

void RandomCrop::apply(Sample& sample, Rng& rng) const {
  const ImageSize image = sample.image.size();
  ImageSize window = crop_size(image, rng);
  window = {std::max<std::int64_t>(1, window.height), std::max<std::int64_t>(1, window.width)};
  const std::int64_t top = rng.between(0, image.height - window.height);
  const std::int64_t left = rng.between(0, image.width - window.width);
  cut_sample_(sample, {.left = left, .top = top, .size = window});
}

// --- after the transforms

FilterCounts filter_instances(Sample& sample, const FilterOptions& options) {
  constexpr double kSmallestSide = 1e-5;  // Detectron2's box_threshold
  const auto width = static_cast<double>(sample.image.width),
             height = static_cast<double>(sample.image.height);
  FilterCounts counts;
  for (Instance& instance : sample.instances) {
    if (options.recompute_boxes && !instance.segmentation.empty()) {
      instance.box = visible_mask_box(instance.segmentation, sample.image.size());
    }
    const Box& box = instance.box;
    const Box clipped{std::clamp(box.x1, 0.0, width), std::clamp(box.y1, 0.0, height),
                      std::clamp(box.x2, 0.0, width), std::clamp(box.y2, 0.0, height)};
    counts.clipped += clipped == box ? 0 : 1;
    instance.box = clipped;
  }
  counts.dropped =
      static_cast<std::int64_t>(std::erase_if(sample.instances, [&](const Instance& instance) {
        const bool no_mask = options.masks && has_empty_mask(instance);
        counts.masks_empty += no_mask ? 1 : 0;
        return no_mask ||
               !(instance.box.width() > kSmallestSide && instance.box.height() > kSmallestSide);
      }));
  return counts;
}

}  // namespace detforge
