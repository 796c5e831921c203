#include "detforge/vis/grid.h"

#include <gtest/gtest.h>

#include "detforge/core/error.h"

namespace detforge {
namespace {

Image filled(ImageSize size, std::uint8_t value) {
  return {size.height, size.width,
          std::vector<std::uint8_t>(static_cast<std::size_t>(size.height * size.width * 3), value)};
}

TEST(Grid, PutsPicturesRowByRowIntoEqualCells) {
  const Image sheet = grid({filled({10, 20}, 200), filled({5, 8}, 201), filled({10, 20}, 202)},
                           {.columns = 2, .gap = 3});
  // Two cells of 20 wide and 10 high, three gaps each way.
  EXPECT_EQ(sheet.size(), (ImageSize{29, 49}));
  EXPECT_EQ(sheet.row(3)[3 * 3], 200);
  EXPECT_EQ(sheet.row(3)[3 * 26], 201);
  EXPECT_EQ(sheet.row(16)[3 * 3], 202);
  EXPECT_LT(sheet.row(9)[3 * 26], 100);
}

TEST(Grid, IsNearlySquareByDefault) {
  const std::vector<Image> images(5, filled({10, 10}, 200));
  EXPECT_EQ(grid(images, {.gap = 0}).size(), (ImageSize{20, 30}));
}

TEST(Grid, OfNothingIsAnError) {
  EXPECT_THROW(grid({}), Error);
}

TEST(Captioned, AddsAStripAndKeepsThePicture) {
  const Image picture = filled({300, 400}, 200);
  const Image sheet = captioned(picture, "ground truth");
  EXPECT_EQ(sheet.width, 400);
  ASSERT_GT(sheet.height, 300);
  EXPECT_EQ(sheet.row(sheet.height - 300)[0], 200);
  EXPECT_LT(sheet.row(0)[3 * 399], 100);
}

}  // namespace
}  // namespace detforge
