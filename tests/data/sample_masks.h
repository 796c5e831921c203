#pragma once

#include <cstdint>
#include <vector>

#include "detforge/core/rng.h"
#include "detforge/structures/polygon_raster.h"
#include "detforge/structures/rle.h"
#include "detforge/structures/sample.h"

namespace detforge::test {

/// A noisy image without objects.
inline Sample noisy_sample(ImageSize size, std::uint64_t seed) {
  Rng rng(seed, RngPurpose::kTest);
  Sample sample;
  sample.image = {
      size.height, size.width,
      std::vector<std::uint8_t>(static_cast<std::size_t>(size.height * size.width * 3))};
  for (std::uint8_t& value : sample.image.bgr) {
    value = static_cast<std::uint8_t>(rng.below(256));
  }
  sample.original_size = size;
  return sample;
}

inline std::vector<double> rectangle(const Box& box) {
  return {box.x1, box.y1, box.x2, box.y1, box.x2, box.y2, box.x1, box.y2};
}

/// Adds an object with annotation id 100 + its place, class = its place.
inline Instance& add_object(Sample& sample, const Box& box, Segmentation mask = {}) {
  Instance& instance = sample.instances.emplace_back();
  instance.box = box;
  instance.label = static_cast<std::int64_t>(sample.instances.size()) - 1;
  instance.annotation_id = 100 + instance.label;
  instance.segmentation = std::move(mask);
  return instance;
}
inline Instance& add_polygon(Sample& sample, const Box& box) {
  return add_object(sample, box, {{rectangle(box)}, {}});
}
inline Instance& add_rle(Sample& sample, const Box& box) {
  return add_object(sample, box, {{}, polygon_mask(rectangle(box), sample.image.size())});
}

/// The mask's pixels in the sample's image.
inline Rle mask_of(const Sample& sample, std::size_t index) {
  return segmentation_mask(sample.instances[index].segmentation, sample.image.size());
}
inline Box mask_box_of(const Sample& sample, std::size_t index) {
  return rle_box(mask_of(sample, index).counts, sample.image.height);
}

}  // namespace detforge::test
