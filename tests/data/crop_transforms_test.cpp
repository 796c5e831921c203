// Expand and the min-IoU crop.
#include <cmath>
#include <set>

#include <gtest/gtest.h>

#include "data/coded_sample.h"
#include "detforge/core/error.h"
#include "detforge/data/expand.h"
#include "detforge/data/min_iou_crop.h"
#include "detforge/data/transform_pipeline.h"

namespace detforge {
namespace {

Rng test_rng(std::uint64_t stream) {
  return {21, RngPurpose::kAugment, stream};
}

// --- Expand

TEST(Expand, PutsTheImageOnALargerPlainOne) {
  std::set<std::int64_t> lefts;
  for (std::uint64_t i = 0; i < 50; ++i) {
    const Sample before = test::coded_sample(i);
    Sample sample = before;
    Rng rng = test_rng(i);
    Expand({.probability = 1, .min_ratio = 1.5, .fill = 7}).apply(sample, rng);
    EXPECT_GE(sample.image.height, before.image.height * 3 / 2);
    EXPECT_LE(sample.image.height, before.image.height * 2);
    const double ratio =
        static_cast<double>(sample.image.width) / static_cast<double>(before.image.width);
    EXPECT_NEAR(ratio * static_cast<double>(before.image.height),
                static_cast<double>(sample.image.height), 3);  // both sides by one ratio
    const double left = sample.instances[0].box.x1 - before.instances[0].box.x1,
                 top = sample.instances[0].box.y1 - before.instances[0].box.y1;
    lefts.insert(static_cast<std::int64_t>(left));
    // Exactly the image there, and 7 around.
    std::int64_t around = 0;
    for (std::int64_t y = 0; y < sample.image.height; ++y) {
      for (std::int64_t x = 0; x < sample.image.width; ++x) {
        const std::int64_t from_x = x - static_cast<std::int64_t>(left),
                           from_y = y - static_cast<std::int64_t>(top);
        const bool inside = from_x >= 0 && from_x < before.image.width && from_y >= 0 &&
                            from_y < before.image.height;
        const int expected = inside ? before.image.row(from_y)[3 * from_x] : 7;
        ASSERT_EQ(sample.image.row(y)[3 * x], expected);
        around += inside ? 0 : 1;
      }
    }
    EXPECT_EQ(around,
              sample.image.height * sample.image.width - before.image.height * before.image.width);
    test::expect_objects_fit(sample);
  }
  EXPECT_GT(lefts.size(), 10U);
}

TEST(Expand, ProbabilityIsRespected) {
  const Expand expand({.probability = 0.25, .min_ratio = 2});
  int expanded = 0;
  for (std::uint64_t i = 0; i < 4000; ++i) {
    Sample sample = test::noisy_sample({1, 2}, 1);
    Rng rng = test_rng(i);
    expand.apply(sample, rng);
    expanded += sample.image.width == 4 ? 1 : 0;
  }
  EXPECT_NEAR(expanded, 1000, 110);  // 4 standard deviations of the binomial
}

TEST(Expand, RefusesImpossibleOptions) {
  EXPECT_THROW(Expand({.min_ratio = 0.5}), Error);
  EXPECT_THROW(Expand({.min_ratio = 3, .max_ratio = 2}), Error);
  EXPECT_THROW(Expand({.probability = 1.5}), Error);
}

// --- min-IoU crop

// The centre of the first object is (10, 10): inside. Of the second (21, 10): outside by 1. Of the
// third (20, 10): on the border, which is outside.
TEST(MinIouRandomCrop, KeepsObjectsWhoseCentreIsInside) {
  Sample sample = test::noisy_sample({30, 40}, 1);
  test::add_polygon(sample, {5, 5, 15, 15});
  test::add_polygon(sample, {10, 5, 32, 15});
  test::add_rle(sample, {10, 5, 30, 15});
  test::add_rle(sample, {0, 0, 17, 12});  // centre (8.5, 6)
  const Image before = sample.image;
  crop_to_centres_(sample, {.left = 8, .top = 4, .size = {20, 12}});
  EXPECT_EQ(sample.image.size(), (ImageSize{20, 12}));
  EXPECT_EQ(sample.image.row(3)[3 * 2], before.row(7)[3 * 10]);
  ASSERT_EQ(sample.instances.size(), 2U);
  EXPECT_EQ(sample.instances[0].label, 0);
  EXPECT_EQ(sample.instances[0].box, (Box{-3, 1, 7, 11}));
  EXPECT_EQ(sample.instances[1].label, 3);
  EXPECT_EQ(test::mask_box_of(sample, 0), (Box{0, 1, 7, 11}));
  EXPECT_EQ(test::mask_box_of(sample, 1), (Box{0, 0, 9, 8}));
}

double naive_iou(const Box& a, const Box& b) {
  double shared = 0;  // whole corners: counted pixel by pixel
  for (double y = a.y1; y < a.y2; ++y) {
    for (double x = a.x1; x < a.x2; ++x) {
      shared += x >= b.x1 && x < b.x2 && y >= b.y1 && y < b.y2 ? 1 : 0;
    }
  }
  return shared / (a.area() + b.area() - shared);
}

TEST(MinIouRandomCropProperty, WindowsHoldAllObjectsWithTheIouAndACentre) {
  const MinIouRandomCrop crop({});
  int found = 0;
  for (std::uint64_t i = 0; i < 3000; ++i) {
    Sample sample = test::coded_sample(i % 40);
    sample.instances.resize(1 + i % 2);
    Rng rng = test_rng(i);
    const double min_iou = 0.02 * static_cast<double>(i % 5);
    const std::optional<Window> window = crop.draw_window(sample, min_iou, rng);
    if (!window) {
      continue;
    }
    ++found;
    const auto [left, top, size] = *window;
    ASSERT_TRUE(left >= 0 && top >= 0 && left + size.width <= sample.image.width &&
                top + size.height <= sample.image.height && size.width > 0 && size.height > 0);
    // Corners are rounded down, so each side may be 1 off what was drawn.
    EXPECT_GE(static_cast<double>(size.width) + 1, 0.3 * static_cast<double>(sample.image.width));
    EXPECT_LE(size.height - 1, 2 * (size.width + 1));
    EXPECT_LE(size.width - 1, 2 * (size.height + 1));
    const Box box{static_cast<double>(left), static_cast<double>(top),
                  static_cast<double>(left + size.width), static_cast<double>(top + size.height)};
    bool centre = false;
    for (const Instance& object : sample.instances) {
      EXPECT_GE(naive_iou(box, object.box), min_iou - 1e-12);
      const double x = (object.box.x1 + object.box.x2) / 2, y = (object.box.y1 + object.box.y2) / 2;
      centre = centre || (x > box.x1 && x < box.x2 && y > box.y1 && y < box.y2);
    }
    EXPECT_TRUE(centre);
  }
  EXPECT_GT(found, 300);
}

// 40000 crops of mmdetection's algorithm in NumPy, for an image of 100 x 160, objects (10, 20, 60,
// 70) and (90, 30, 150, 90) and IoUs 0.1, 0.2, 0.3: 25.0 % of the images stay whole, the others
// begin at (19.8, 11.7), are 116.3 wide and 77.3 high and hold 1.697 objects on average (standard
// deviations 19.0, 9.6, 26.3, 12.9, 0.459).
TEST(MinIouRandomCrop, HasTheDistributionOfMmdetections) {
  const MinIouRandomCrop crop({.min_ious = {0.1, 0.2, 0.3}});
  constexpr int kRuns = 8000;
  Sample image = test::noisy_sample({100, 160}, 1);
  test::add_polygon(image, {10, 20, 60, 70});
  test::add_polygon(image, {90, 30, 150, 90});
  double whole = 0, crops = 0, width = 0, height = 0, objects = 0, left = 0, seen_left = 0;
  for (std::uint64_t i = 0; i < kRuns; ++i) {
    Sample sample = image;
    Rng rng = test_rng(i);
    crop.apply(sample, rng);
    if (sample.image.size() == image.image.size()) {
      ++whole;
      continue;
    }
    ++crops;
    width += static_cast<double>(sample.image.width);
    height += static_cast<double>(sample.image.height);
    objects += static_cast<double>(sample.instances.size());
    left += image.instances[0].box.x1;
    left -= sample.instances[0].label == 0 ? sample.instances[0].box.x1 : 0;
    seen_left += sample.instances[0].label == 0 ? 1 : 0;
  }
  const double root = std::sqrt(crops);
  // 4 standard errors, and half a pixel since mmdetection's windows do not begin at 0.
  EXPECT_NEAR(whole / kRuns, 0.25, 4 * std::sqrt(0.25 * 0.75 / kRuns));
  EXPECT_NEAR(width / crops, 116.33, 4 * 26.3 / root);
  EXPECT_NEAR(height / crops, 77.33, 4 * 12.9 / root);
  EXPECT_NEAR(objects / crops, 1.697, 4 * 0.459 / root);
  EXPECT_GT(seen_left, 0);
}

TEST(MinIouRandomCrop, CropsImagesWithoutObjectsAndEndsOnTinyOnes) {
  int cropped = 0;
  for (std::uint64_t i = 0; i < 400; ++i) {
    Sample empty = test::noisy_sample({50, 70}, i), dot = test::noisy_sample({1, 1}, i);
    test::add_polygon(dot, {0, 0, 1, 1});
    Rng rng = test_rng(i);
    MinIouRandomCrop({}).apply(empty, rng);
    cropped += empty.image.size() == ImageSize{50, 70} ? 0 : 1;
    MinIouRandomCrop({}).apply(dot, rng);
    EXPECT_EQ(dot.image.size(), (ImageSize{1, 1}));
    EXPECT_EQ(dot.instances.size(), 1U);
  }
  EXPECT_NEAR(cropped, 400 * 7 / 8, 27);  // 7 of 8 choices crop
}

TEST(MinIouRandomCrop, DroppedObjectsAreCounted) {
  const TransformPipeline pipeline({.min_sizes = {0},
                                    .flip = TransformPipeline::Flip::kNone,
                                    .masks = true,
                                    .min_iou_crop = MinIouRandomCrop::Options{.min_ious = {}}});
  std::int64_t counted = 0, missing = 0;
  for (std::uint64_t i = 0; i < 200; ++i) {
    Sample sample = test::coded_sample(i);
    Rng rng = test_rng(i);
    const FilterCounts counts = pipeline.apply(sample, rng);
    EXPECT_EQ(counts.cropped_out, counts.dropped);
    counted += counts.dropped;
    missing += 4 - std::ssize(sample.instances);
    test::expect_objects_fit(sample);
  }
  EXPECT_EQ(counted, missing);
  EXPECT_GT(counted, 50);
}

TEST(MinIouRandomCrop, RefusesImpossibleOptions) {
  EXPECT_THROW(MinIouRandomCrop({.min_ious = {0.5, 1.0}}), Error);
  EXPECT_THROW(MinIouRandomCrop({.min_ious = {-0.1}}), Error);
  EXPECT_THROW(MinIouRandomCrop({.min_crop_size = 0}), Error);
}

}  // namespace
}  // namespace detforge
