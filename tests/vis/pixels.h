#pragma once

#include <cstdlib>
#include <vector>

#include "detforge/structures/rle.h"
#include "detforge/vis/colours.h"

namespace detforge::test {

inline Image grey(ImageSize size) {
  return {size.height, size.width,
          std::vector<std::uint8_t>(static_cast<std::size_t>(size.height * size.width * 3), 128)};
}

inline bool is_grey(const Image& image, std::int64_t y, std::int64_t x) {
  const std::uint8_t* pixel = image.row(y) + 3 * x;
  return pixel[0] == 128 && pixel[1] == 128 && pixel[2] == 128;
}

/// Whether the pixel is `share` of the colour and the rest grey.
inline bool is_mix(
    const Image& image, std::int64_t y, std::int64_t x, const Colour& colour, double share) {
  for (std::size_t channel = 0; channel < 3; ++channel) {
    const double expected = 128 + share * (colour[channel] - 128);
    if (std::abs(image.row(y)[3 * x + static_cast<std::int64_t>(channel)] - expected) > 8) {
      return false;
    }
  }
  return true;
}

inline bool has_colour(const Image& image, std::int64_t y, std::int64_t x, const Colour& colour) {
  return is_mix(image, y, x, colour, 1);
}

/// The mask of a rectangle in whole pixels.
inline Rle rectangle(const Box& box, ImageSize size) {
  std::vector<std::uint8_t> bits(static_cast<std::size_t>(size.height * size.width));
  for (auto y = static_cast<std::int64_t>(box.y1); y < static_cast<std::int64_t>(box.y2); ++y) {
    for (auto x = static_cast<std::int64_t>(box.x1); x < static_cast<std::int64_t>(box.x2); ++x) {
      bits[static_cast<std::size_t>(y * size.width + x)] = 1;
    }
  }
  return encode_mask(bits, size);
}

}  // namespace detforge::test
