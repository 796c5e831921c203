#include <gtest/gtest.h>

#include "detforge/core/error.h"
#include "detforge/vis/draw.h"
#include "vis/pixels.h"

namespace detforge {
namespace {

using test::grey;
using test::is_grey;
using test::is_mix;
using test::rectangle;

constexpr ImageSize kSize{600, 600};

/// Only the masks, at the picture's own size.
DrawOptions masks_only() {
  return {.boxes = false, .labels = false, .least_short_edge = 0};
}

Image drawn_with(const Rle& mask, const DrawOptions& options) {
  const std::vector<DrawnObject> objects = {{.box = {0, 0, 1, 1}, .label = 3, .mask = mask}};
  return draw_objects(grey(kSize), objects, {}, options);
}

TEST(DrawMasks, TintsInsideAndLeavesOutsideUntouched) {
  const Image drawn = drawn_with(rectangle({100, 200, 300, 400}, kSize), masks_only());
  EXPECT_TRUE(is_mix(drawn, 300, 200, class_colour(3), 0.4));
  EXPECT_TRUE(is_mix(drawn, 210, 110, class_colour(3), 0.4));
  for (std::int64_t y = 0; y < kSize.height; ++y) {
    for (std::int64_t x = 0; x < kSize.width; ++x) {
      if (y < 195 || y >= 405 || x < 95 || x >= 305) {
        ASSERT_TRUE(is_grey(drawn, y, x)) << y << " " << x;
      }
    }
  }
}

TEST(DrawMasks, OutlineIsOfFullColourWithADarkLineOutside) {
  const Image drawn = drawn_with(rectangle({100, 200, 300, 400}, kSize), masks_only());
  for (const auto& [y, x, outwards_y, outwards_x] :
       {std::array{200, 150, -2, 0}, {399, 150, 2, 0}, {300, 100, 0, -2}, {300, 299, 0, 2}}) {
    EXPECT_TRUE(is_mix(drawn, y, x, class_colour(3), 1)) << y << " " << x;
    const std::uint8_t* outside = drawn.row(y + outwards_y) + 3 * (x + outwards_x);
    EXPECT_LT(outside[0] + outside[1] + outside[2], 3 * 110) << y << " " << x;
  }
}

TEST(DrawMasks, HolesStayOpen) {
  Rle outer = rectangle({100, 100, 400, 400}, kSize);
  std::vector<std::uint8_t> bits(600 * 600);
  decode_mask(outer, bits);
  for (std::size_t y = 200; y < 300; ++y) {
    std::fill_n(bits.begin() + static_cast<std::ptrdiff_t>(y * 600 + 200), 100, std::uint8_t{0});
  }
  const Image drawn = drawn_with(encode_mask(bits, kSize), masks_only());
  EXPECT_TRUE(is_grey(drawn, 250, 250));
  EXPECT_TRUE(is_mix(drawn, 150, 250, class_colour(3), 0.4));
  EXPECT_TRUE(is_mix(drawn, 199, 250, class_colour(3), 1));  // the hole's edge
}

TEST(DrawMasks, AtTheBordersTheyAreDrawnWhole) {
  const Image drawn = drawn_with(rectangle({0, 0, 600, 600}, kSize), masks_only());
  EXPECT_TRUE(is_mix(drawn, 300, 300, class_colour(3), 0.4));
  for (const auto& [y, x] : {std::pair{0, 0}, {0, 300}, {599, 599}, {300, 0}, {300, 599}}) {
    EXPECT_TRUE(is_mix(drawn, y, x, class_colour(3), 1)) << y << " " << x;
  }
}

TEST(DrawMasks, EmptyAndSinglePixelMasksAreFine) {
  const Rle empty{kSize, {600 * 600}};
  EXPECT_EQ(drawn_with(empty, masks_only()).bgr, grey(kSize).bgr);
  EXPECT_EQ(drawn_with(Rle{}, masks_only()).bgr, grey(kSize).bgr);
  const Image drawn = drawn_with(rectangle({30, 40, 31, 41}, kSize), masks_only());
  EXPECT_FALSE(is_grey(drawn, 40, 30));
}

TEST(DrawMasks, CanBeTurnedOff) {
  DrawOptions options = masks_only();
  options.masks = false;
  EXPECT_EQ(drawn_with(rectangle({100, 200, 300, 400}, kSize), options).bgr, grey(kSize).bgr);
}

TEST(DrawMasks, GrowWithSmallPictures) {
  // 60 x 60 becomes 480 x 480, eight pixels for one.
  constexpr ImageSize kSmall{60, 60};
  const Rle mask = rectangle({10, 20, 30, 40}, kSmall);
  const std::vector<DrawnObject> objects = {{.box = {10, 20, 30, 40}, .label = 3, .mask = mask}};
  const Image drawn = draw_objects(grey(kSmall), objects, {}, {.boxes = false, .labels = false});
  ASSERT_EQ(drawn.size(), (ImageSize{480, 480}));
  EXPECT_TRUE(is_mix(drawn, 160, 160, class_colour(3), 1));
  EXPECT_TRUE(is_mix(drawn, 319, 239, class_colour(3), 0.4) ||
              is_mix(drawn, 319, 238, class_colour(3), 1));
  EXPECT_TRUE(is_mix(drawn, 240, 160, class_colour(3), 0.4));
  EXPECT_TRUE(is_mix(drawn, 168, 88, class_colour(3), 0.4));
  EXPECT_TRUE(is_grey(drawn, 155, 160));
  EXPECT_TRUE(is_grey(drawn, 325, 160));
  EXPECT_TRUE(is_grey(drawn, 240, 75));
  EXPECT_TRUE(is_grey(drawn, 240, 245));
}

TEST(DrawMasks, OutlinesStandAboveAllFills) {
  const Rle back = rectangle({100, 100, 300, 300}, kSize);
  const Rle front = rectangle({200, 50, 500, 350}, kSize);
  const std::vector<DrawnObject> objects = {
      {.box = {100, 100, 300, 300}, .label = 1, .score = 0.5, .mask = back},
      {.box = {200, 50, 500, 350}, .label = 2, .score = 0.9, .mask = front}};
  const Image drawn = draw_objects(grey(kSize), objects, {}, masks_only());
  EXPECT_TRUE(is_mix(drawn, 200, 299, class_colour(1), 1));
  EXPECT_TRUE(is_mix(drawn, 200, 400, class_colour(2), 0.4));
}

TEST(DrawMasks, ForeignSizesAndBrokenRunsAreErrors) {
  EXPECT_THROW(drawn_with(rectangle({1, 1, 5, 5}, {600, 599}), masks_only()), Error);
  EXPECT_THROW(drawn_with({kSize, {5, 10}}, masks_only()), Error);
  EXPECT_THROW(drawn_with({kSize, {5, 4000000}}, masks_only()), Error);
}

}  // namespace
}  // namespace detforge
