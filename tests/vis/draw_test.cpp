#include "detforge/vis/draw.h"

#include <cstdlib>
#include <set>

#include <gtest/gtest.h>

#include "detforge/core/error.h"

namespace detforge {
namespace {

Image grey(ImageSize size) {
  return {size.height, size.width,
          std::vector<std::uint8_t>(static_cast<std::size_t>(size.height * size.width * 3), 128)};
}

DrawOptions as_it_is() {
  return {.labels = false, .least_short_edge = 0};
}

bool has_colour(const Image& image, std::int64_t y, std::int64_t x, std::int64_t label) {
  const auto colour = class_colour(label);
  for (std::size_t channel = 0; channel < 3; ++channel) {
    if (std::abs(image.row(y)[3 * x + static_cast<std::int64_t>(channel)] - colour[channel]) > 8) {
      return false;
    }
  }
  return true;
}

TEST(ClassColour, FirstEightyDiffer) {
  std::set<std::array<std::uint8_t, 3>> seen;
  for (std::int64_t label = 0; label < 80; ++label) {
    seen.insert(class_colour(label));
  }
  EXPECT_EQ(seen.size(), 80U);
}

TEST(DrawDetections, DrawsEachBoxInItsClassColourAndNothingInside) {
  const Image drawn =
      draw_detections(grey({600, 600}), {{100, 200, 300, 400}}, {3}, {0.9}, {}, as_it_is());
  EXPECT_EQ(drawn.size(), (ImageSize{600, 600}));
  EXPECT_TRUE(has_colour(drawn, 200, 150, 3));
  EXPECT_TRUE(has_colour(drawn, 300, 100, 3));
  EXPECT_EQ(drawn.row(300)[3 * 200], 128);
  EXPECT_EQ(drawn.row(50)[3 * 50], 128);
}

TEST(DrawDetections, LeavesOutWhatIsBelowTheThreshold) {
  DrawOptions options = as_it_is();
  options.score_threshold = 0.5;
  const Image drawn =
      draw_detections(grey({600, 600}), {{100, 200, 300, 400}}, {0}, {0.49}, {}, options);
  EXPECT_EQ(drawn.bgr, grey({600, 600}).bgr);
}

TEST(DrawDetections, TheBestIsOnTop) {
  const std::vector<Box> boxes = {{100, 100, 300, 300}, {100, 100, 300, 300}};
  EXPECT_TRUE(has_colour(
      draw_detections(grey({600, 600}), boxes, {1, 2}, {0.9, 0.8}, {}, as_it_is()), 100, 200, 1));
  EXPECT_TRUE(has_colour(
      draw_detections(grey({600, 600}), boxes, {1, 2}, {0.8, 0.9}, {}, as_it_is()), 100, 200, 2));
}

TEST(DrawDetections, SmallPicturesAreEnlargedWithTheirBoxes) {
  const Image drawn =
      draw_detections(grey({60, 60}), {{10, 20, 30, 40}}, {0}, {}, {}, {.labels = false});
  EXPECT_EQ(drawn.size(), (ImageSize{480, 480}));
  EXPECT_TRUE(has_colour(drawn, 160, 160, 0));
}

TEST(DrawDetections, AStripOfOnePixelIsDrawn) {
  const Image drawn = draw_detections(grey({5000, 1}), {{0, 10, 1, 400}}, {0}, {}, {});
  EXPECT_EQ(drawn.size(), (ImageSize{1920, 1}));
}

TEST(DrawDetections, LabelsLieAboveTheBoxOrInsideAtTheTop) {
  const std::vector<std::string> names = {"disc"};
  const DrawOptions options{.least_short_edge = 0};
  const Image above =
      draw_detections(grey({600, 600}), {{100, 200, 300, 400}}, {0}, {0.97}, names, options);
  EXPECT_TRUE(has_colour(above, 198, 102, 0));
  const Image inside =
      draw_detections(grey({600, 600}), {{100, 0, 300, 400}}, {0}, {0.97}, names, options);
  EXPECT_TRUE(has_colour(inside, 2, 102, 0));
}

TEST(DrawDetections, StrangeInputsAreDrawnOrRefused) {
  const Image image = grey({50, 50});
  EXPECT_NO_THROW(draw_detections(image, {}, {}, {}, {}));
  EXPECT_NO_THROW(draw_detections(image, {{-1000, -5, 1e6, 80}}, {99}, {0.5}, {"one"}));
  EXPECT_NO_THROW(draw_detections(image, {{1, 1, 9, 9}}, {0}, {0.5},
                                  {"Z\xC3\xBCrich, a name longer than the picture is wide"}));
  EXPECT_THROW(draw_detections(image, {{1, 1, 9, 9}}, {}, {}, {}), Error);
  EXPECT_THROW(draw_detections(image, {{1, 1, 9, 9}}, {0}, {0.1, 0.2}, {}), Error);
}

TEST(DrawGroundTruth, DrawsBoxesAndPolygons) {
  Instance instance;
  instance.box = {100, 100, 300, 300};
  instance.label = 2;
  instance.segmentation.polygons = {{100, 200, 200, 100, 300, 200, 200, 300}};
  const Image drawn = draw_ground_truth(grey({600, 600}), {instance}, {}, as_it_is());
  EXPECT_TRUE(has_colour(drawn, 100, 120, 2));
  EXPECT_NE(drawn.row(150)[3 * 150], 128);  // on the polygon's edge
  EXPECT_EQ(drawn.row(200)[3 * 200], 128);
}

}  // namespace
}  // namespace detforge
