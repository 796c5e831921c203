#include "detforge/data/flip.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace detforge {
namespace {

/// Every byte differs from its neighbours.
Image striped(ImageSize size) {
  Image image{size.height, size.width, {}};
  for (std::int64_t i = 0; i < size.height * size.width * 3; ++i) {
    image.bgr.push_back(static_cast<std::uint8_t>(i * 7 + i / 256));
  }
  return image;
}

TEST(FlipHorizontalProperty, EveryPixelOfEveryWidthIsMirrored) {
  for (std::int64_t width = 1; width < 70; ++width) {
    const Image before = striped({3, width});
    Image after = before;
    flip_horizontal_(after);
    for (std::int64_t y = 0; y < 3; ++y) {
      for (std::int64_t x = 0; x < width; ++x) {
        for (std::int64_t channel = 0; channel < 3; ++channel) {
          ASSERT_EQ(after.row(y)[3 * x + channel], before.row(y)[3 * (width - 1 - x) + channel])
              << width;
        }
      }
    }
  }
}

TEST(FlipVerticalProperty, EveryRowIsMirrored) {
  for (std::int64_t height = 1; height < 6; ++height) {
    const Image before = striped({height, 2});
    Image after = before;
    flip_vertical_(after);
    for (std::int64_t y = 0; y < height; ++y) {
      EXPECT_TRUE(std::equal(after.row(y), after.row(y) + 6, before.row(height - 1 - y)));
    }
  }
}

TEST(Flip, EmptyImageStaysEmpty) {
  Image image;
  flip_horizontal_(image);
  flip_vertical_(image);
  EXPECT_TRUE(image.bgr.empty());
}

}  // namespace
}  // namespace detforge
