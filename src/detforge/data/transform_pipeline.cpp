#include "detforge/data/transform_pipeline.h"

#include <array>
#include <exception>
#include <utility>

#include <fmt/format.h>

#include "detforge/core/error.h"
#include "detforge/data/fixed_resize.h"
#include "detforge/structures/polygon_raster.h"

namespace detforge {
namespace {

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

Sample take_partner(const TransformPipeline::Partner& partner, Rng& rng) {
  DETFORGE_CHECK(partner, "mosaic, mixup and copy-paste have no second image to take",
                 "this is a bug of the caller: they are for training");
  return partner(rng);
}

void add(FilterCounts& sum, const FilterCounts& more) {
  sum.clipped += more.clipped;
  sum.dropped += more.dropped;
  sum.masks_empty += more.masks_empty;
  sum.cropped_out += more.cropped_out;
}

/// Applies the transforms; objects that they remove are counted.
void apply_all(const std::vector<std::unique_ptr<const Transform>>& transforms,
               Sample& sample,
               Rng& rng,
               FilterCounts& counts) {
  const auto before = std::ssize(sample.instances);
  for (const auto& transform : transforms) {
    transform->apply(sample, rng);
  }
  const auto removed = before - std::ssize(sample.instances);
  counts.dropped += removed;
  counts.cropped_out += removed;
}

void check_resizes(const TransformPipeline::Options& options) {
  const int common =
      (options.fixed_size ? 1 : 0) + (options.letterbox ? 1 : 0) + (options.darknet_jitter ? 1 : 0);
  const int others = (options.large_scale_jitter ? 1 : 0) + (options.resize_range ? 1 : 0);
  DETFORGE_CHECK(common + others <= 1, "several transforms decide the size of an image",
                 "keep one of large-scale jitter, resize range, fixed size, letterbox and "
                 "Darknet's jitter");
  DETFORGE_CHECK(!options.multi_scale || common == 1, "multi-scale has no resize to go with",
                 "add a fixed size, a letterbox or Darknet's jitter");
}

}  // namespace

TransformPipeline::TransformPipeline(const Options& options)
    : options_(options),
      filter_{.masks = options.masks, .recompute_boxes = options.recompute_boxes} {
  DETFORGE_CHECK(
      options.masks || !(options.copy_paste || options.recompute_boxes || options.bitmasks),
      "copy-paste, boxes from masks and bitmasks need masks", "set MODEL.MASK_ON");
  if (options.photometric_distortion) {
    first_.push_back(std::make_unique<PhotometricDistortion>(*options.photometric_distortion));
  }
  if (options.expand) {
    first_.push_back(std::make_unique<Expand>(*options.expand));
  }
  if (options.min_iou_crop) {
    first_.push_back(std::make_unique<MinIouRandomCrop>(*options.min_iou_crop));
  }
  if (options.crop) {
    first_.push_back(std::make_unique<RandomCrop>(options.crop_options));
  }
  if (options.mosaic) {
    mosaic_.emplace(*options.mosaic, options.interpolation);
  }
  add_resize();
  if (options.flip != Flip::kNone) {
    const auto direction = options.flip == Flip::kHorizontal ? RandomFlip::Direction::kHorizontal
                                                             : RandomFlip::Direction::kVertical;
    flip_ = std::make_unique<RandomFlip>(direction, options.flip_probability);
  }
  if (options.mixup) {
    check_mixup(*options.mixup);
  }
}

void TransformPipeline::add_resize() {
  check_resizes(options_);
  if (options_.multi_scale) {
    check_multi_scale(*options_.multi_scale);
  }
  const BatchPlace first_batch;
  Rng rng(first_batch.seed, RngPurpose::kMultiScale);
  if (const std::optional<ImageSize> size = image_size(first_batch, rng)) {
    resize_.push_back(resize_to(*size));  // with multi-scale only checked here
  } else if (const auto& jitter = options_.large_scale_jitter) {
    resize_.push_back(std::make_unique<ResizeScale>(
        ResizeScale::Options{
            .min_scale = jitter->min_scale, .max_scale = jitter->max_scale, .target = jitter->size},
        options_.interpolation));
    resize_.push_back(std::make_unique<FixedSizeCrop>(
        FixedSizeCrop::Options{.size = jitter->size, .padding = jitter->padding}));
  } else if (options_.resize_range) {
    resize_.push_back(
        std::make_unique<ResizeRange>(*options_.resize_range, options_.interpolation));
  } else if (options_.min_sizes != std::vector<std::int64_t>{0}) {
    resize_.push_back(std::make_unique<ResizeShortestEdge>(
        ResizeShortestEdge::Options{.short_edges = options_.min_sizes,
                                    .max_size = options_.max_size,
                                    .style = options_.sample_style},
        options_.interpolation));
  }
}

FilterCounts TransformPipeline::apply(Sample& sample,
                                      Rng& rng,
                                      const Partner& partner,
                                      const BatchPlace& place) const {
  const Draws draws{.rng = rng, .partner = partner, .size = image_size(place, rng)};
  FilterCounts counts = transform(sample, draws);
  if (options_.mixup && rng.uniform() < options_.mixup->probability) {
    mix(sample, draws, counts);
  }
  if (options_.copy_paste && rng.uniform() < options_.copy_paste->probability) {
    paste(sample, draws, counts);
  }
  return counts;
}

/// The size that the options give every image, if they do.
std::optional<ImageSize> TransformPipeline::image_size(const BatchPlace& place, Rng& rng) const {
  if (options_.multi_scale) {
    return multi_scale_size(*options_.multi_scale, place, rng);
  }
  if (options_.letterbox) {
    return options_.letterbox->size;
  }
  return options_.darknet_jitter ? options_.darknet_jitter->size : options_.fixed_size;
}

/// Steps 1 to 4.
FilterCounts TransformPipeline::transform(Sample& sample, const Draws& draws) const {
  const std::string name = name_of(sample);
  FilterCounts counts = at_image(name, [&] { return first_steps(sample, draws.rng); });
  const bool mosaic = mosaic_ && draws.rng.uniform() < mosaic_->probability();
  if (mosaic) {
    add(counts, compose_mosaic(sample, draws));
  }
  at_image(name, [&] {
    if (!mosaic || !draws.size) {
      resize(sample, draws);
    }
    if (flip_) {
      flip_->apply(sample, draws.rng);
    }
    for (Instance& instance : sample.instances) {
      if (options_.bitmasks && !instance.segmentation.polygons.empty()) {
        instance.segmentation = {{}, segmentation_mask(instance.segmentation, sample.image.size())};
      }
    }
    add(counts, filter_instances(sample, filter_));
  });
  return counts;
}

FilterCounts TransformPipeline::first_steps(Sample& sample, Rng& rng) const {
  FilterCounts counts;
  apply_all(first_, sample, rng, counts);
  if (mosaic_ || options_.letterbox || options_.darknet_jitter ||
      (options_.large_scale_jitter && !first_.empty())) {
    // Before something lies around the image, into which a box could reach.
    add(counts, filter_instances(sample, filter_));
  }
  return counts;
}

FilterCounts TransformPipeline::compose_mosaic(Sample& sample, const Draws& draws) const {
  FilterCounts counts;
  std::string names = name_of(sample);
  std::array<Sample, Mosaic::kOthers> others;
  for (Sample& other : others) {
    other = take_partner(draws.partner, draws.rng);
    const std::string name = name_of(other);
    add(counts, at_image(name, [&] { return first_steps(other, draws.rng); }));
    names += " with " + name;
  }
  const std::int64_t removed = at_image(names, [&] {
    return mosaic_->compose_(sample, std::move(others), draws.size.value_or(mosaic_->size()),
                             draws.rng);
  });
  counts.dropped += removed;
  counts.cropped_out += removed;
  return counts;
}

/// The resize that gives every image this size.
std::unique_ptr<const Transform> TransformPipeline::resize_to(ImageSize size) const {
  if (options_.letterbox) {
    Letterbox::Options letterbox = *options_.letterbox;
    letterbox.size = size;
    return std::make_unique<Letterbox>(letterbox, options_.interpolation);
  }
  if (options_.darknet_jitter) {
    DarknetJitter::Options jitter = *options_.darknet_jitter;
    jitter.size = size;
    return std::make_unique<DarknetJitter>(jitter, options_.interpolation);
  }
  return std::make_unique<FixedResize>(size, options_.interpolation);
}

void TransformPipeline::resize(Sample& sample, const Draws& draws) const {
  if (options_.multi_scale) {
    resize_to(*draws.size)->apply(sample, draws.rng);
    return;
  }
  for (const auto& transform : resize_) {
    transform->apply(sample, draws.rng);
  }
}

void TransformPipeline::mix(Sample& sample, const Draws& draws, FilterCounts& counts) const {
  Sample other = take_partner(draws.partner, draws.rng);
  const std::string names = fmt::format("{} mixed with {}", name_of(sample), name_of(other));
  add(counts, transform(other, draws));
  at_image(names, [&] { mix_(sample, std::move(other), *options_.mixup, draws.rng); });
}

void TransformPipeline::paste(Sample& sample, const Draws& draws, FilterCounts& counts) const {
  Sample other = take_partner(draws.partner, draws.rng);
  const std::string names = fmt::format("{} with objects of {}", name_of(sample), name_of(other));
  transform(other, draws);
  counts.dropped +=
      at_image(names, [&] {
        return paste_objects_(sample, std::move(other), *options_.copy_paste, draws.rng);
      }).hidden;
  counts.dropped += filter_instances(sample, filter_).dropped;
}

}  // namespace detforge
