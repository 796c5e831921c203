#include "detforge/data/transforms.h"

#include <algorithm>
#include <exception>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "detforge/core/error.h"
#include "detforge/data/large_scale_jitter.h"
#include "detforge/data/polygon_clip.h"
#include "detforge/data/resize.h"
#include "detforge/data/sample_geometry.h"
#include "detforge/structures/polygon_raster.h"
#include "detforge/structures/rle.h"

namespace detforge {
namespace {

/// Uniform in [low, high].
std::int64_t draw_between(std::int64_t low, std::int64_t high, Rng& rng) {
  return low + static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(high - low + 1)));
}

std::int64_t rounded(double value) {
  return static_cast<std::int64_t>(value + 0.5);
}

std::string name_of(const Sample& sample) {
  return fmt::format("image {}, {}", sample.image_id, sample.path);
}

/// Does a step; whatever it throws becomes an Error that happened at `where`.
template <typename Step>
auto at_image(const std::string& where, const Step& step) {
  try {
    return step();
  } catch (Error& error) {
    error.add_where(where);
    throw;
  } catch (const std::exception& error) {
    throw Error(fmt::format("the image cannot be transformed: {}", error.what()), "")
        .add_where(where)
        .at(__FILE__, __LINE__);
  }
}

bool has_empty_mask(const Instance& instance) {
  const std::vector<std::uint32_t>& runs = instance.segmentation.rle.counts;
  return !runs.empty() && rle_area(runs) == 0;
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
  resize_sample_(sample, shortest_edge_size(sample.image.size(), edge, options_.max_size));
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

// --- TransformPipeline

TransformPipeline::TransformPipeline(const Options& options)
    : filter_{.masks = options.masks, .recompute_boxes = options.recompute_boxes},
      bitmasks_(options.bitmasks),
      copy_paste_(options.copy_paste) {
  DETFORGE_CHECK(options.masks || !(options.copy_paste || options.recompute_boxes || bitmasks_),
                 "copy-paste, boxes from masks and bitmasks need masks", "set MODEL.MASK_ON");
  if (options.crop) {
    transforms_.push_back(std::make_unique<RandomCrop>(options.crop_options));
  }
  if (const auto& jitter = options.large_scale_jitter) {
    transforms_.push_back(std::make_unique<ResizeScale>(ResizeScale::Options{
        .min_scale = jitter->min_scale, .max_scale = jitter->max_scale, .target = jitter->size}));
    transforms_.push_back(std::make_unique<FixedSizeCrop>(
        FixedSizeCrop::Options{.size = jitter->size, .padding = jitter->padding}));
  } else if (options.min_sizes != std::vector<std::int64_t>{0}) {
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

FilterCounts TransformPipeline::apply(Sample& sample, Rng& rng, const Partner& partner) const {
  const std::string name = name_of(sample);
  FilterCounts counts = at_image(name, [&] { return transform(sample, rng); });
  if (copy_paste_ && rng.uniform() < copy_paste_->probability) {
    DETFORGE_CHECK(partner, "copy-paste has no second image to take objects from",
                   "this is a bug of the caller: copy-paste is for training");
    Sample other = partner(rng);
    const std::string other_name = name_of(other);
    at_image(other_name, [&] { return transform(other, rng); });
    counts.dropped += at_image(fmt::format("{} with objects of {}", name, other_name), [&] {
                        return paste_objects_(sample, std::move(other), *copy_paste_, rng);
                      }).hidden;
    counts.dropped += filter_instances(sample, filter_).dropped;
  }
  return counts;
}

FilterCounts TransformPipeline::transform(Sample& sample, Rng& rng) const {
  for (const auto& transform : transforms_) {
    transform->apply(sample, rng);
  }
  for (Instance& instance : sample.instances) {
    if (bitmasks_ && !instance.segmentation.polygons.empty()) {
      instance.segmentation = {{}, segmentation_mask(instance.segmentation, sample.image.size())};
    }
  }
  return filter_instances(sample, filter_);
}

}  // namespace detforge
