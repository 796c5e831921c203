#include "detforge/vis/draw.h"

#include <gtest/gtest.h>

#include "detforge/core/allocator.h"
#include "vis/pixels.h"

namespace detforge {
namespace {

using test::grey;
using test::is_grey;

bool has_colour(const Image& image, std::int64_t y, std::int64_t x, std::int64_t label) {
  return test::has_colour(image, y, x, class_colour(label));
}

DrawOptions as_it_is() {
  return {.labels = false, .least_short_edge = 0};
}

/// Boxes without masks; `scores` may be empty.
Image draw_detections(const Image& image,
                      const std::vector<Box>& boxes,
                      const std::vector<std::int64_t>& labels,
                      const std::vector<double>& scores,
                      const std::vector<std::string>& class_names,
                      const DrawOptions& options = {}) {
  std::vector<DrawnObject> objects;
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    objects.push_back({.box = boxes[i], .label = labels[i]});
    if (!scores.empty()) {
      objects.back().score = scores[i];
    }
  }
  return draw_objects(image, objects, class_names, options);
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

TEST(DrawDetections, LongThinPicturesAreEnlargedOrLeftButNeverShrunk) {
  const auto drawn_size = [](ImageSize size) {
    return draw_detections(grey(size), {{0, 10, 1, 400}}, {0}, {}, {}).size();
  };
  EXPECT_EQ(drawn_size({400, 3000}), (ImageSize{400, 3000}));
  EXPECT_EQ(drawn_size({5000, 1}), (ImageSize{5000, 1}));
  EXPECT_EQ(drawn_size({1920, 400}), (ImageSize{1920, 400}));
  EXPECT_EQ(drawn_size({1600, 400}), (ImageSize{1920, 480}));
  EXPECT_EQ(drawn_size({400, 1800}), (ImageSize{427, 1920}));
}

TEST(DrawDetections, LargePicturesAreShrunkWithBoxesAndMasks) {
  // 900 x 1200 becomes 600 x 800; the mask is the left half of the box, which becomes 180 wide.
  const Rle mask = test::rectangle({270, 180, 405, 720}, {900, 1200});
  const std::vector<DrawnObject> objects = {
      {.box = {270, 180, 540, 720}, .label = 1, .mask = mask}};
  DrawOptions options = as_it_is();
  options.longest_side = 800;
  const Image drawn = draw_objects(grey({900, 1200}), objects, {}, options);
  ASSERT_EQ(drawn.size(), (ImageSize{600, 800}));
  EXPECT_TRUE(test::is_mix(drawn, 300, 225, class_colour(1), options.fill));
  EXPECT_TRUE(has_colour(drawn, 300, 269, 1));                       // the mask's outline
  EXPECT_TRUE(is_grey(drawn, 300, 315));                             // in the box
  EXPECT_TRUE(test::is_mix(drawn, 300, 359, class_colour(1), 0.6));  // the box's frame
  EXPECT_TRUE(is_grey(drawn, 300, 361));
  EXPECT_TRUE(is_grey(drawn, 114, 225));
  EXPECT_TRUE(is_grey(drawn, 486, 225));
}

TEST(DrawDetections, SmallPicturesAreEnlargedNoFurtherThanTheBound) {
  const DrawOptions options{.labels = false, .longest_side = 100};
  EXPECT_EQ(draw_detections(grey({60, 30}), {}, {}, {}, {}, options).size(), (ImageSize{100, 50}));
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

TEST(DrawDetections, StrangeInputsAreDrawn) {
  const Image image = grey({50, 50});
  EXPECT_NO_THROW(draw_detections(image, {}, {}, {}, {}));
  EXPECT_NO_THROW(draw_detections(image, {{-1000, -5, 1e6, 80}}, {99}, {0.5}, {"one"}));
  EXPECT_NO_THROW(draw_detections(image, {{1, 1, 9, 9}}, {0}, {0.5},
                                  {"Z\xC3\xBCrich, a name longer than the picture is wide"}));
}

TEST(DrawDetections, BoxesFarOutsideAreCut) {
  const Image drawn =
      draw_detections(grey({600, 600}), {{-1e12, 100, 1e12, 300}}, {0}, {}, {}, as_it_is());
  EXPECT_TRUE(has_colour(drawn, 100, 300, 0));
  EXPECT_TRUE(is_grey(drawn, 200, 300));
}

TEST(DrawGroundTruth, FillsPolygonsAndMarksCrowds) {
  Instance instance;
  instance.box = {100, 100, 300, 300};
  instance.label = 2;
  instance.segmentation.polygons = {{100, 200, 200, 100, 300, 200, 200, 300}};
  const Image drawn = draw_ground_truth(grey({600, 600}), {instance}, {}, as_it_is());
  EXPECT_TRUE(test::is_mix(drawn, 200, 200, class_colour(2), DrawOptions().fill));
  EXPECT_TRUE(is_grey(drawn, 120, 120));  // in the box, beside the diamond
  EXPECT_FALSE(is_grey(drawn, 100, 120));
  const std::vector<std::string> names = {"a", "b", "c"};
  const DrawOptions with_labels{.boxes = false, .masks = false, .least_short_edge = 0};
  const Image plain = draw_ground_truth(grey({600, 600}), {instance}, names, with_labels);
  instance.is_crowd = true;
  EXPECT_NE(draw_ground_truth(grey({600, 600}), {instance}, names, with_labels).bgr, plain.bgr);
}

TEST(DrawComparison, ShowsBothSidesWithCaptions) {
  Instance truth;
  truth.box = {10, 10, 400, 400};
  const std::vector<DrawnObject> found = {{.box = truth.box, .label = 0, .score = 0.2}};
  DrawOptions options = as_it_is();
  options.score_threshold = 0.5;
  const Image sheet = draw_comparison(grey({500, 500}), found, {truth}, {"a"}, options);
  ASSERT_GT(sheet.width, 1000);
  ASSERT_GT(sheet.height, 500);
  const std::int64_t strip = sheet.height - 500 - 6;  // captions and the gap above; one gap below
  EXPECT_TRUE(is_grey(sheet, strip + 10, 6 + 200));   // left: below the threshold
  EXPECT_TRUE(has_colour(sheet, strip + 10, 12 + 500 + 200, 0));
}

// 4500 x 6000 pixels are 81 MB; a side of the comparison is 9 MB, a mask's piece at most 3 MB.
TEST(DrawComparison, MemoryFollowsTheBoundNotTheImage) {
  constexpr ImageSize kLarge{4500, 6000};
  const Rle mask{kLarge, {0, 4500 * 6000}};
  const Box all{0, 0, 6000, 4500};
  const std::vector<DrawnObject> found(5, {.box = all, .label = 0, .score = 0.9, .mask = mask});
  Instance truth;
  truth.box = all;
  truth.segmentation.polygons = {{0, 0, 6000, 0, 6000, 4500, 0, 4500}};
  const Image image = grey(kLarge);
  const std::int64_t before = peak_rss_bytes();
  const Image sheet = draw_comparison(image, found, {truth, truth}, {"a"});
  EXPECT_EQ(sheet.width, 2 * 2000 + 3 * 6);
#ifndef __SANITIZE_ADDRESS__  // which keeps freed memory for a while
  EXPECT_LT(peak_rss_bytes() - before, 80'000'000);
#endif
}

}  // namespace
}  // namespace detforge
