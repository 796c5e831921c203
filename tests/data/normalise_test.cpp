#include "detforge/data/normalise.h"

#include <vector>

#include <gtest/gtest.h>

#include "detforge/core/error.h"

namespace detforge {
namespace {

TEST(NormaliseInto, SubtractsDividesSplitsPlanesAndPadsWithZero) {
  const Image image{1, 2, {10, 20, 30, 40, 50, 60}};
  std::vector<float> planes(3 * 2 * 3, 7.0F);
  normalise_into(image, planes.data(), 2, 3, {10, 20, 30}, {1, 2, 4});
  const std::vector<float> expected = {0, 30, 0, 0, 0, 0, 0, 15, 0, 0, 0, 0, 0, 7.5F, 0, 0, 0, 0};
  EXPECT_EQ(planes, expected);
}

TEST(NormaliseInto, RoundsAfterEachOperation) {
  const float mean = 103.53F, std = 57.375F;
  for (int value = 0; value < 256; ++value) {
    const auto byte = static_cast<std::uint8_t>(value);
    std::vector<float> planes(3);
    normalise_into({1, 1, {byte, byte, byte}}, planes.data(), 1, 1, {mean, mean, mean},
                   {std, std, std});
    const volatile float difference = static_cast<float>(value) - mean;
    EXPECT_EQ(planes[0], difference / std);
  }
}

TEST(NormaliseInto, WideRowsEqualSinglePixels) {
  Image image{2, 67, {}};
  for (int i = 0; i < 2 * 67 * 3; ++i) {
    image.bgr.push_back(static_cast<std::uint8_t>(i * 37));
  }
  std::vector<float> planes(3 * 3 * 70, -1.0F);
  normalise_into(image, planes.data(), 3, 70, {1, 2, 3}, {3, 2, 7});
  for (std::int64_t channel = 0; channel < 3; ++channel) {
    for (std::int64_t y = 0; y < 3; ++y) {
      for (std::int64_t x = 0; x < 70; ++x) {
        const bool inside = y < 2 && x < 67;
        const float mean = static_cast<float>(channel + 1), std = channel == 0   ? 3.0F
                                                                  : channel == 1 ? 2.0F
                                                                                 : 7.0F;
        const float expected =
            inside ? (static_cast<float>(image.row(y)[3 * x + channel]) - mean) / std : 0.0F;
        EXPECT_EQ(planes[static_cast<std::size_t>((channel * 3 + y) * 70 + x)], expected);
      }
    }
  }
}

TEST(NormaliseInto, RefusesImagesThatDoNotFit) {
  std::vector<float> planes(3);
  EXPECT_THROW(
      normalise_into({1, 2, std::vector<std::uint8_t>(6)}, planes.data(), 1, 1, {}, {1, 1, 1}),
      Error);
  EXPECT_THROW(normalise_into({1, 1, {1, 2, 3}}, planes.data(), 1, 1, {}, {1, 0, 1}), Error);
}

}  // namespace
}  // namespace detforge
