#include "detforge/vis/labels.h"

#include <gtest/gtest.h>

#include "detforge/vis/text.h"
#include "vis/pixels.h"

namespace detforge::vis {
namespace {

using test::grey;
using test::is_grey;

constexpr Style kStyle{.text_height = 10, .line_width = 2};
constexpr Colour kRed = {0, 0, 255}, kGreen = {0, 255, 0};

/// Pixels that have exactly this colour: the ground of its plate.
int count(const Image& image, const Colour& colour) {
  int pixels = 0;
  for (std::size_t i = 0; i < image.bgr.size(); i += 3) {
    pixels += std::equal(colour.begin(), colour.end(),
                         image.bgr.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return pixels;
}

Image drawn(const std::vector<Label>& labels) {
  Image image = grey({300, 300});
  cv::Mat canvas = view(image);
  draw_labels(canvas, labels, kStyle);
  return image;
}

TEST(Plate, HoldsTextOnItsGround) {
  Image image = grey({40, 200});
  cv::Mat canvas = view(image);
  draw_plate(canvas, "disc 0.97", {10, 5}, kRed, 10);
  const cv::Size plate = plate_size("disc 0.97", 10);
  EXPECT_TRUE(test::has_colour(image, 5, 10, kRed));
  EXPECT_TRUE(test::has_colour(image, 5 + plate.height - 1, 10 + plate.width - 1, kRed));
  EXPECT_TRUE(is_grey(image, 4, 10));
  EXPECT_TRUE(is_grey(image, 5, 10 + plate.width));
  int ink = 0;  // white letters on red
  for (std::int64_t x = 10; x < 10 + plate.width; ++x) {
    ink += image.row(5 + plate.height / 2)[3 * x] > 128 ? 1 : 0;
  }
  EXPECT_GT(ink, 5);
}

TEST(Plate, IsCutAtTheBorder) {
  Image image = grey({20, 20});
  cv::Mat canvas = view(image);
  EXPECT_NO_THROW(draw_plate(canvas, "wide", {-5, -5}, kRed, 30));
  EXPECT_NO_THROW(draw_plate(canvas, "far away", {100, 100}, kRed, 30));
  EXPECT_NO_THROW(draw_plate(canvas, "", {0, 0}, kRed, 10));
  EXPECT_TRUE(test::has_colour(image, 0, 0, kRed));
}

TEST(Labels, EvadeOneAnother) {
  const Box box{100, 100, 160, 160};
  const Image one = drawn({{box, "first", "first", kRed}});
  const Image both = drawn({{box, "first", "first", kRed}, {box, "second", "second", kGreen}});
  EXPECT_EQ(count(one, kRed), count(both, kRed));
  EXPECT_GT(count(both, kGreen), 100);
}

TEST(Labels, ThatFindNoPlaceAreLeftOut) {
  // The same small object over and over: six places, then no more.
  std::vector<Label> labels(12, {{100, 100, 110, 110}, "object", "object", kRed});
  labels.push_back({{100, 100, 110, 110}, "object", "object", kGreen});
  const Image image = drawn(labels);
  EXPECT_GT(count(image, kRed), 100);
  EXPECT_EQ(count(image, kGreen), 0);
}

TEST(Labels, OfSmallObjectsAreShortAndSmall) {
  const Image large = drawn({{{50, 50, 250, 250}, "nucleus 0.97", "0.97", kRed}});
  const Image small = drawn({{{100, 100, 120, 120}, "nucleus 0.97", "0.97", kRed}});
  EXPECT_GT(count(large, kRed), 2 * count(small, kRed));
  EXPECT_GT(count(small, kRed), 50);
  EXPECT_EQ(count(drawn({{{100, 100, 120, 120}, "nucleus", "", kRed}}), kRed), 0);
}

TEST(Labels, DoNotCoverASmallNeighbour) {
  // The place above the first object is where the second one is.
  const Box object{100, 100, 150, 150}, neighbour{100, 75, 130, 98};
  const Image image = drawn({{object, "text", "text", kRed}, {neighbour, "", "", kGreen}});
  for (std::int64_t y = 76; y < 97; ++y) {
    for (std::int64_t x = 101; x < 129; ++x) {
      ASSERT_TRUE(is_grey(image, y, x)) << y << " " << x;
    }
  }
}

}  // namespace
}  // namespace detforge::vis
