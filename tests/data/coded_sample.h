#pragma once

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "data/sample_masks.h"
#include "detforge/data/sample_geometry.h"

namespace detforge::test {

// Samples whose pixels tell which object they show, so that a box or mask that went astray is seen.

/// The colour of an object of this label, 0..29: none is grey, and none is near another.
inline std::array<int, 3> colour_of(std::int64_t label) {
  const auto k = static_cast<int>(label);
  return {255 - 8 * k, 8 * k, 255};
}

inline bool shows(const Image& image, std::int64_t y, std::int64_t x, std::int64_t label) {
  const std::array<int, 3> colour = colour_of(label);
  for (std::size_t channel = 0; channel < 3; ++channel) {
    const int value = image.row(y)[3 * x + static_cast<std::int64_t>(channel)];
    if (std::abs(value - colour[channel]) > 2) {
      return false;
    }
  }
  return true;
}

/// A grey image of random size with up to four rectangles with whole corners, one in each quarter,
/// of the labels first_label + 0..3; every other one has its mask as RLE.
inline Sample coded_sample(std::uint64_t seed, std::int64_t first_label = 0) {
  Rng rng(seed, RngPurpose::kTest, 77);
  const ImageSize size{rng.between(60, 150), rng.between(60, 150)};
  Sample sample;
  sample.image_id = static_cast<std::int64_t>(seed);
  sample.original_size = size;
  sample.image = plain_image(size, 60);
  for (std::int64_t k = 0; k < 4; ++k) {
    const std::int64_t half_height = size.height / 2, half_width = size.width / 2;
    const std::int64_t top = k / 2 * half_height + rng.between(0, half_height - 20),
                       left = k % 2 * half_width + rng.between(0, half_width - 20);
    const std::int64_t high = rng.between(12, 20), wide = rng.between(12, 20);
    const Box box{static_cast<double>(left), static_cast<double>(top),
                  static_cast<double>(left + wide), static_cast<double>(top + high)};
    (k % 2 == 0 ? add_polygon(sample, box) : add_rle(sample, box)).label = first_label + k;
    for (std::int64_t y = top; y < top + high; ++y) {
      for (std::int64_t x = left; x < left + wide; ++x) {
        for (std::size_t channel = 0; channel < 3; ++channel) {
          sample.image.row(y)[3 * x + static_cast<std::int64_t>(channel)] =
              static_cast<std::uint8_t>(colour_of(first_label + k)[channel]);
        }
      }
    }
  }
  return sample;
}

/// Checks that the box lies in the image, that its middle shows its object, and that nothing of the
/// object is seen more than `slack` pixels outside.
inline void expect_box_fits(const Sample& sample, const Instance& object, double slack = 2) {
  const Image& image = sample.image;
  const Box& box = object.box;
  ASSERT_GE(box.x1, 0);
  ASSERT_GE(box.y1, 0);
  ASSERT_LE(box.x2, static_cast<double>(image.width));
  ASSERT_LE(box.y2, static_cast<double>(image.height));
  ASSERT_LT(box.x1, box.x2);
  ASSERT_LT(box.y1, box.y2);
  if (box.width() >= 4 && box.height() >= 4) {
    const auto x = static_cast<std::int64_t>((box.x1 + box.x2) / 2),
               y = static_cast<std::int64_t>((box.y1 + box.y2) / 2);
    EXPECT_TRUE(shows(image, y, x, object.label)) << "label " << object.label;
  }
  for (std::int64_t y = 0; y < image.height; ++y) {
    for (std::int64_t x = 0; x < image.width; ++x) {
      const double px = static_cast<double>(x) + 0.5, py = static_cast<double>(y) + 0.5;
      const bool outside =
          px < box.x1 - slack || px > box.x2 + slack || py < box.y1 - slack || py > box.y2 + slack;
      ASSERT_FALSE(outside && shows(image, y, x, object.label))
          << "label " << object.label << " at (" << x << ", " << y << "), box (" << box.x1 << ", "
          << box.y1 << ", " << box.x2 << ", " << box.y2 << ")";
    }
  }
}

/// Checks that the mask is what it was: all of the box, but for roundings of its border.
inline void expect_mask_fits(const Sample& sample, std::size_t index) {
  const Rle mask = mask_of(sample, index);
  ASSERT_EQ(mask.size, sample.image.size());
  const Box &box = sample.instances[index].box, around = rle_box(mask.counts, mask.size.height);
  const std::string where = fmt::format("label {}", sample.instances[index].label);
  EXPECT_NEAR(around.x1, box.x1, 2) << where;
  EXPECT_NEAR(around.y1, box.y1, 2) << where;
  EXPECT_NEAR(around.x2, box.x2, 2) << where;
  EXPECT_NEAR(around.y2, box.y2, 2) << where;
  EXPECT_EQ(static_cast<double>(rle_area(mask.counts)), around.area()) << where;
}

inline void expect_objects_fit(const Sample& sample) {
  for (std::size_t i = 0; i < sample.instances.size(); ++i) {
    expect_box_fits(sample, sample.instances[i]);
    if (!sample.instances[i].segmentation.empty()) {
      expect_mask_fits(sample, i);
    }
  }
}

}  // namespace detforge::test
