#include "detforge/data/collate.h"

#include <algorithm>
#include <array>

#include <ATen/ops/empty.h>

#include "detforge/core/error.h"
#include "detforge/data/normalise.h"

namespace detforge {
namespace {

std::array<float, 3> to_bgr(const std::array<double, 3>& values, bool rgb) {
  const auto at = [&](std::size_t channel) {
    return static_cast<float>(values[rgb ? 2 - channel : channel]);
  };
  return {at(0), at(1), at(2)};
}

Targets make_targets(const Sample& sample, bool masks) {
  const auto count = std::count_if(sample.instances.begin(), sample.instances.end(),
                                   [](const Instance& i) { return !i.is_crowd; });
  Targets targets{.boxes = at::empty({count, 4}, at::kFloat),
                  .labels = at::empty({count}, at::kLong)};
  float* box = targets.boxes.data_ptr<float>();
  std::int64_t* label = targets.labels.data_ptr<std::int64_t>();
  for (const Instance& instance : sample.instances) {
    if (instance.is_crowd) {
      continue;
    }
    for (const double coordinate :
         {instance.box.x1, instance.box.y1, instance.box.x2, instance.box.y2}) {
      *box++ = static_cast<float>(coordinate);
    }
    *label++ = instance.label;
    if (masks) {
      targets.masks.push_back(instance.segmentation);
    }
  }
  return targets;
}

std::int64_t round_up(std::int64_t n, std::int64_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

}  // namespace

Batch collate(const std::vector<Sample>& samples, const CollateOptions& options) {
  DETFORGE_CHECK(!samples.empty(), "a batch has no images", "this is a bug of the caller");
  DETFORGE_CHECK(options.size_divisibility > 0, "size_divisibility is below 1",
                 "use 32, or 1 for no padding");
  ImageSize padded;
  for (const Sample& sample : samples) {
    padded.height = std::max(padded.height, sample.image.height);
    padded.width = std::max(padded.width, sample.image.width);
  }
  padded = {round_up(padded.height, options.size_divisibility),
            round_up(padded.width, options.size_divisibility)};
  const std::array<float, 3> mean = to_bgr(options.pixel_mean, options.rgb),
                             std = to_bgr(options.pixel_std, options.rgb);
  Batch batch;
  batch.images.images = at::empty(
      {static_cast<std::int64_t>(samples.size()), 3, padded.height, padded.width}, at::kFloat);
  float* out = batch.images.images.data_ptr<float>();
  const std::int64_t plane = padded.height * padded.width;
  for (const Sample& sample : samples) {
    normalise_into(sample.image, out, padded.height, padded.width, mean, std);
    if (options.rgb) {
      std::swap_ranges(out, out + plane, out + 2 * plane);
    }
    out += 3 * plane;
    batch.images.sizes.push_back(sample.image.size());
    batch.images.original_sizes.push_back(sample.original_size);
    batch.images.image_ids.push_back(sample.image_id);
    batch.images.paths.push_back(sample.path);
    batch.images.contents.push_back(sample.content.value_or(Window{.size = sample.image.size()}));
    batch.images.rng_keys.push_back(sample.rng_key);
    batch.targets.push_back(make_targets(sample, options.masks));
  }
  return batch;
}

}  // namespace detforge
