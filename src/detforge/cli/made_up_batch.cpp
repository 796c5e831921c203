#include "detforge/cli/made_up_batch.h"

#include <algorithm>
#include <array>

#include "detforge/core/rng.h"

namespace detforge {
namespace {

/// The box with its corners cut off by a quarter.
std::vector<double> octagon(const Box& box) {
  const double dx = box.width() / 4, dy = box.height() / 4;
  return {box.x1 + dx, box.y1, box.x2 - dx, box.y1, box.x2, box.y1 + dy, box.x2, box.y2 - dy,
          box.x2 - dx, box.y2, box.x1 + dx, box.y2, box.x1, box.y2 - dy, box.x1, box.y1 + dy};
}

Instance made_up_object(HeightWidth size, std::int64_t num_classes, Rng& rng) {
  const double x = rng.uniform(0, 0.7) * static_cast<double>(size.width);
  const double y = rng.uniform(0, 0.7) * static_cast<double>(size.height);
  const double w = 16 + rng.uniform(0, 0.25) * static_cast<double>(size.width);
  const double h = 16 + rng.uniform(0, 0.25) * static_cast<double>(size.height);
  Instance object;
  object.box = {x, y, std::min(x + w, static_cast<double>(size.width)),
                std::min(y + h, static_cast<double>(size.height))};
  object.label = static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(num_classes)));
  object.area = object.box.area();
  object.segmentation.polygons = {octagon(object.box)};
  return object;
}

void paint(Image& image, const Instance& object, Rng& rng) {
  const std::array<std::uint64_t, 3> colour = {rng.below(200), rng.below(200), rng.below(200)};
  for (auto y = static_cast<std::int64_t>(object.box.y1);
       y < static_cast<std::int64_t>(object.box.y2); ++y) {
    for (auto x = static_cast<std::int64_t>(object.box.x1);
         x < static_cast<std::int64_t>(object.box.x2); ++x) {
      std::uint8_t* pixel = image.row(y) + x * 3;
      for (std::size_t c = 0; c < 3; ++c) {
        pixel[c] = static_cast<std::uint8_t>(colour[c] + pixel[c] % 56);
      }
    }
  }
}

}  // namespace

std::vector<Sample> made_up_samples(HeightWidth size,
                                    std::int64_t count,
                                    std::int64_t objects,
                                    std::int64_t num_classes) {
  std::vector<Sample> samples(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    Rng rng(1, RngPurpose::kTest, static_cast<std::uint64_t>(i));
    Sample& sample = samples[static_cast<std::size_t>(i)];
    sample.image_id = i;
    sample.path = "made-up image " + std::to_string(i);
    sample.image = {.height = size.height, .width = size.width, .bgr = {}};
    sample.image.bgr.resize(static_cast<std::size_t>(size.height * size.width * 3));
    std::generate(sample.image.bgr.begin(), sample.image.bgr.end(),
                  [&] { return static_cast<std::uint8_t>(rng.next_u64() & 0xFF); });
    sample.original_size = sample.image.size();
    sample.rng_key = rng.next_u64();
    for (std::int64_t k = 0; k < objects; ++k) {
      sample.instances.push_back(made_up_object(size, num_classes, rng));
      paint(sample.image, sample.instances.back(), rng);
    }
  }
  return samples;
}

CollateOptions made_up_collate_options(CollateOptions recipe) {
  constexpr std::array kColourStd = {57.375, 57.12, 58.395};  // of ImageNet: B, G, R
  for (std::size_t i = 0; i < kColourStd.size(); ++i) {
    recipe.pixel_std[i] = recipe.pixel_std[i] == 1 ? kColourStd[i] : recipe.pixel_std[i];
  }
  return recipe;
}

void settle_frozen_norms(Detector& detector) {
  constexpr double kBranch = 0.2;
  for (auto& buffer : detector.named_buffers()) {
    if (buffer.key().ends_with(".conv3.norm.weight")) {
      buffer.value().mul_(kBranch);
    }
  }
}

}  // namespace detforge
