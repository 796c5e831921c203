// Transforms that put several images together: mosaic and mixup.
#include "detforge/data/mosaic.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "data/coded_sample.h"
#include "detforge/core/error.h"
#include "detforge/data/mixup.h"

namespace detforge {
namespace {

Rng test_rng(std::uint64_t stream) {
  return {9, RngPurpose::kAugment, stream};
}

/// A plain image of this value with one object that fills it, of that label.
Sample filled(ImageSize size, std::uint8_t value, std::int64_t label) {
  Sample sample;
  sample.image_id = label;
  sample.original_size = size;
  sample.image = plain_image(size, value);
  test::add_polygon(sample,
                    {0, 0, static_cast<double>(size.width), static_cast<double>(size.height)})
      .label = label;
  return sample;
}

// --- mosaic

// Four pictures as large as the mosaic: at scale 1 they fill it, whatever the point, and each one's
// box is its rectangle.
TEST(Mosaic, FourPicturesMeetInAPoint) {
  const Mosaic mosaic(
      {.size = {40, 60}, .min_scale = 1, .max_scale = 1, .min_visible_frac = 0, .min_side = 0});
  std::set<std::vector<std::int64_t>> orders;
  for (std::uint64_t i = 0; i < 60; ++i) {
    Sample sample = filled({40, 60}, 50, 0);
    Rng rng = test_rng(i);
    const std::int64_t removed = mosaic.compose_(
        sample, {filled({20, 30}, 100, 1), filled({40, 60}, 150, 2), filled({80, 120}, 200, 3)},
        {40, 60}, rng);
    EXPECT_EQ(removed, 0);
    ASSERT_EQ(sample.image.size(), (ImageSize{40, 60}));
    EXPECT_EQ(sample.original_size, (ImageSize{40, 60}));
    std::map<std::uint8_t, std::int64_t> pixels;
    for (std::size_t k = 0; k < sample.image.bgr.size(); k += 3) {
      ++pixels[sample.image.bgr[k]];
    }
    EXPECT_EQ(pixels.count(114), 0U);  // no border shows
    std::vector<std::int64_t> lefts;
    for (const Instance& object : sample.instances) {
      const auto value = static_cast<std::uint8_t>(50 * (object.label + 1));
      EXPECT_EQ(static_cast<double>(pixels[value]), object.box.area());
      lefts.push_back(object.box.x1 > 0 ? 1 : 0);
    }
    orders.insert(lefts);
  }
  EXPECT_GT(orders.size(), 4U);  // any picture may be in any corner
}

TEST(Mosaic, FillsWhatNoPictureCovers) {
  const Mosaic mosaic({.min_scale = 0.5, .max_scale = 0.5, .fill = 33, .min_visible_frac = 0});
  for (std::uint64_t i = 0; i < 20; ++i) {
    Sample sample = filled({100, 100}, 200, 0);
    Rng rng = test_rng(i);
    mosaic.compose_(
        sample, {filled({100, 50}, 200, 1), filled({50, 100}, 200, 2), filled({100, 100}, 200, 3)},
        {100, 100}, rng);
    // Pictures of 50 x 50, 50 x 25, 25 x 50 and 50 x 50 pixels, less what lies outside.
    double area = 0;
    for (const Instance& object : sample.instances) {
      area += object.box.area();
      EXPECT_LE(object.box.area(), object.label % 3 == 0 ? 2500 : 1250);
    }
    const auto shown = std::count(sample.image.bgr.begin(), sample.image.bgr.end(), 200);
    EXPECT_EQ(static_cast<double>(shown), 3 * area);
    EXPECT_EQ(std::count(sample.image.bgr.begin(), sample.image.bgr.end(), 33), 30000 - shown);
    EXPECT_GT(shown, 3 * 2500);
    EXPECT_EQ(sample.instances.size(), 4U);
  }
}

TEST(MosaicProperty, BoxesLabelsAndMasksFollowThePixels) {
  const Mosaic mosaic({});
  std::size_t seen = 0;
  std::int64_t removed = 0;
  for (std::uint64_t i = 0; i < 60; ++i) {
    Sample sample = test::coded_sample(i);
    Rng rng = test_rng(i);
    const std::int64_t lost = mosaic.compose_(
        sample,
        {test::coded_sample(i + 1, 4), test::coded_sample(i + 2, 8), test::coded_sample(i + 3, 12)},
        {160, 120}, rng);
    EXPECT_EQ(lost + std::ssize(sample.instances), 16);
    test::expect_objects_fit(sample);
    for (const Instance& object : sample.instances) {
      EXPECT_GE(std::min(object.box.width(), object.box.height()), 2);
    }
    seen += sample.instances.size();
    removed += lost;
  }
  EXPECT_GT(seen, 300U);
  EXPECT_GT(removed, 50);
}

TEST(Mosaic, RefusesImpossibleOptions) {
  EXPECT_THROW(Mosaic({.probability = -1}), Error);
  EXPECT_THROW(Mosaic({.size = {0, 5}}), Error);
  EXPECT_THROW(Mosaic({.min_scale = 2, .max_scale = 1}), Error);
  EXPECT_THROW(Mosaic({.min_visible_frac = 1.5}), Error);
}

// --- mixup

TEST(Mixup, WeighsPixelsAndKeepsAllObjects) {
  Sample sample = filled({4, 10}, 200, 0);
  Rng rng = test_rng(1);
  const double weight = mix_(sample, filled({6, 5}, 100, 1), {.padding = 20}, rng);
  ASSERT_GT(weight, 0);
  ASSERT_LT(weight, 1);
  EXPECT_EQ(sample.image.size(), (ImageSize{6, 10}));
  const auto mixed = [weight](double a, double b) {
    return static_cast<int>(weight * a + (1 - weight) * b + 0.5);
  };
  EXPECT_EQ(sample.image.row(0)[0], mixed(200, 100));
  EXPECT_EQ(sample.image.row(0)[3 * 7], mixed(200, 20));  // beside the other
  EXPECT_EQ(sample.image.row(5)[0], mixed(20, 100));      // below the first
  EXPECT_EQ(sample.image.row(5)[3 * 9], 20);
  EXPECT_EQ(sample.image_id, 0);
  ASSERT_EQ(sample.instances.size(), 2U);
  EXPECT_EQ(sample.instances[0].box, (Box{0, 0, 10, 4}));
  EXPECT_EQ(sample.instances[1].box, (Box{0, 0, 5, 6}));
  EXPECT_EQ(sample.instances[1].label, 1);
  EXPECT_EQ(test::mask_of(sample, 1).size, (ImageSize{6, 10}));
}

// Beta(a, a): mean 1/2, variance 1 / (4 (2 a + 1)).
TEST(Mixup, WeightsAreBetaDistributed) {
  for (const double alpha : {0.3, 1.0, 1.5, 32.0}) {
    double sum = 0, squares = 0;
    constexpr int kRuns = 6000;
    for (std::uint64_t i = 0; i < kRuns; ++i) {
      Sample sample = filled({1, 1}, 0, 0);
      Rng rng = test_rng(i);
      const double weight = mix_(sample, filled({1, 1}, 0, 1), {.alpha = alpha}, rng);
      sum += weight;
      squares += (weight - 0.5) * (weight - 0.5);
    }
    const double variance = 1 / (4 * (2 * alpha + 1));
    EXPECT_NEAR(sum / kRuns, 0.5, 4 * std::sqrt(variance / kRuns)) << alpha;
    EXPECT_NEAR(squares / kRuns / variance, 1, 0.08) << alpha;
  }
}

TEST(Mixup, RefusesImpossibleOptions) {
  EXPECT_THROW(check_mixup({.probability = 2}), Error);
  EXPECT_THROW(check_mixup({.alpha = 0}), Error);
}

}  // namespace
}  // namespace detforge
