// Transforms to one size: letterbox, stretch, Darknet's jitter.
#include "detforge/data/letterbox.h"

#include <cmath>

#include <gtest/gtest.h>

#include "data/coded_sample.h"
#include "detforge/core/error.h"
#include "detforge/data/collate.h"
#include "detforge/data/darknet_jitter.h"
#include "detforge/data/fixed_resize.h"

namespace detforge {
namespace {

Rng test_rng(std::uint64_t stream) {
  return {5, RngPurpose::kAugment, stream};
}

// 20 x 40 (height x width) into 32 x 32: the width limits, 32 / 40 = 0.8, so the picture is 16 x 32
// with 8 rows above and below.
TEST(Letterbox, HandComputedPlaces) {
  EXPECT_EQ(letterbox_content({20, 40}, {32, 32}), (Window{0, 8, {16, 32}}));
  EXPECT_EQ(letterbox_content({40, 20}, {32, 32}), (Window{8, 0, {32, 16}}));
  EXPECT_EQ(letterbox_content({33, 20}, {16, 16}),
            (Window{3, 0, {16, 9}}));  // 9.7 is 9, 7 / 2 is 3
  EXPECT_EQ(letterbox_content({10, 10}, {20, 30}), (Window{5, 0, {20, 20}}));
  EXPECT_EQ(letterbox_content({1, 5000}, {100, 100}), (Window{0, 49, {1, 100}}));
  EXPECT_EQ(letterbox_content({416, 416}, {416, 416}), (Window{0, 0, {416, 416}}));
}

TEST(Letterbox, MovesPixelsBoxesAndMasksTogether) {
  Sample sample = test::noisy_sample({20, 40}, 1);
  test::add_polygon(sample, {10, 5, 20, 10});
  test::add_rle(sample, {0, 0, 40, 20});
  Rng rng = test_rng(0);
  Letterbox({.size = {32, 32}}).apply(sample, rng);
  EXPECT_EQ(sample.image.size(), (ImageSize{32, 32}));
  EXPECT_EQ(sample.content, (Window{0, 8, {16, 32}}));
  EXPECT_EQ(sample.original_size, (ImageSize{20, 40}));
  EXPECT_EQ(sample.instances[0].box, (Box{8, 12, 16, 16}));
  EXPECT_EQ(sample.instances[1].box, (Box{0, 8, 32, 24}));
  EXPECT_EQ(test::mask_box_of(sample, 1), (Box{0, 8, 32, 24}));
  EXPECT_EQ(sample.image.row(7)[3 * 5], 127);
  EXPECT_EQ(sample.image.row(24)[3 * 5], 127);
}

// x = (x' - left) * width / content width gives the number that it was.
TEST(LetterboxProperty, BoxesFindBackExactly) {
  for (std::uint64_t i = 0; i < 200; ++i) {
    Rng rng = test_rng(i);
    Sample sample = test::coded_sample(i);
    const Sample before = sample;
    const ImageSize size{rng.between(20, 200), rng.between(20, 200)};
    const auto interpolation = i % 2 == 0 ? Interpolation::kPillow : Interpolation::kOpenCv;
    Letterbox({.size = size}, interpolation).apply(sample, rng);
    ASSERT_EQ(sample.image.size(), size);
    ASSERT_TRUE(sample.content.has_value());
    const Window& content = *sample.content;
    // The picture keeps its aspect ratio but for rounding, touches two borders and is in the
    // middle.
    EXPECT_TRUE(content.size.width == size.width || content.size.height == size.height);
    EXPECT_LE(std::abs(size.width - content.size.width - 2 * content.left), 1);
    EXPECT_LE(std::abs(size.height - content.size.height - 2 * content.top), 1);
    const double scale_x =
        static_cast<double>(before.image.width) / static_cast<double>(content.size.width);
    const double scale_y =
        static_cast<double>(before.image.height) / static_cast<double>(content.size.height);
    for (std::size_t k = 0; k < sample.instances.size(); ++k) {
      const Box &box = sample.instances[k].box, &was = before.instances[k].box;
      EXPECT_NEAR((box.x1 - static_cast<double>(content.left)) * scale_x, was.x1, 1e-9);
      EXPECT_NEAR((box.y1 - static_cast<double>(content.top)) * scale_y, was.y1, 1e-9);
      EXPECT_NEAR((box.x2 - static_cast<double>(content.left)) * scale_x, was.x2, 1e-9);
      EXPECT_NEAR((box.y2 - static_cast<double>(content.top)) * scale_y, was.y2, 1e-9);
    }
    if (size.width > 100 && size.height > 100) {
      test::expect_objects_fit(sample);
    }
  }
}

TEST(Letterbox, BatchesKnowWherePicturesLie) {
  Sample wide = test::noisy_sample({20, 40}, 1), plain = test::noisy_sample({30, 30}, 1);
  Rng rng = test_rng(0);
  Letterbox({.size = {32, 32}}).apply(wide, rng);
  const ImageBatch images = collate({wide, plain}, {}).images;
  EXPECT_EQ(images.content(0), (Window{0, 8, {16, 32}}));
  EXPECT_EQ(images.content(1), (Window{0, 0, {30, 30}}));
  EXPECT_EQ(images.sizes[0], (ImageSize{32, 32}));
  ImageBatch without;
  without.sizes = {{5, 6}};
  EXPECT_EQ(without.content(0), (Window{0, 0, {5, 6}}));
}

TEST(Letterbox, RefusesASizeOfZero) {
  EXPECT_THROW(Letterbox({.size = {0, 32}}), Error);
}

TEST(FixedResize, Stretches) {
  for (std::uint64_t i = 0; i < 20; ++i) {
    Sample sample = test::coded_sample(i);
    const Sample before = sample;
    Rng rng = test_rng(i);
    FixedResize({90, 130}, Interpolation::kOpenCv).apply(sample, rng);
    EXPECT_EQ(sample.image.size(), (ImageSize{90, 130}));
    EXPECT_NEAR(sample.instances[0].box.x1,
                before.instances[0].box.x1 * 130 / static_cast<double>(before.image.width), 1e-9);
    EXPECT_FALSE(sample.content.has_value());
    test::expect_objects_fit(sample);
  }
  EXPECT_THROW(FixedResize({0, 5}), Error);
}

// Without jitter and at scale 1 it is a letterbox with the picture in a random place.
TEST(DarknetJitter, WithoutRandomnessFitsTheSize) {
  Sample sample = test::noisy_sample({20, 40}, 1);
  test::add_polygon(sample, {10, 5, 20, 10});
  Rng rng = test_rng(3);
  DarknetJitter({.size = {32, 32}, .jitter = 0, .min_scale = 1, .max_scale = 1}).apply(sample, rng);
  EXPECT_EQ(sample.image.size(), (ImageSize{32, 32}));
  const Box& box = sample.instances[0].box;
  EXPECT_EQ(box.x1, 8);
  EXPECT_EQ(box.x2, 16);
  EXPECT_EQ(box.height(), 4);
  EXPECT_GE(box.y1, 4);
  EXPECT_LE(box.y1, 20);
}

/// Smaller than the 100 pixels: wholly inside. Larger: covers them.
void expect_inside_or_around(double low, double high) {
  constexpr double kRounding = 1e-9;
  if (high - low <= 100 + kRounding) {
    EXPECT_GE(low, -kRounding);
    EXPECT_LE(high, 100 + kRounding);
  } else {
    EXPECT_LE(low, kRounding);
    EXPECT_GE(high, 100 - kRounding);
  }
}

TEST(DarknetJitterProperty, ChangesAspectRatioAndScaleInBounds) {
  const DarknetJitter jitter({.size = {100, 100}});
  double least = 100, most = 0, narrowest = 100, widest = 0;
  for (std::uint64_t i = 0; i < 400; ++i) {
    Sample sample = test::noisy_sample({50, 50}, 1);
    test::add_polygon(sample, {0, 0, 50, 50});
    Rng rng = test_rng(i);
    jitter.apply(sample, rng);
    EXPECT_EQ(sample.image.size(), (ImageSize{100, 100}));
    const Box& box = sample.instances[0].box;
    const double ratio = box.width() / box.height(), side = std::max(box.width(), box.height());
    least = std::min(least, side);
    most = std::max(most, side);
    narrowest = std::min(narrowest, ratio);
    widest = std::max(widest, ratio);
    expect_inside_or_around(box.x1, box.x2);
    expect_inside_or_around(box.y1, box.y2);
  }
  EXPECT_GE(least, 24);
  EXPECT_LT(least, 35);
  EXPECT_LE(most, 200);
  EXPECT_GT(most, 190);
  EXPECT_GT(narrowest, 0.5);  // 0.7 / 1.3, and a pixel of rounding
  EXPECT_LT(narrowest, 0.65);
  EXPECT_GT(widest, 1.6);
  EXPECT_LT(widest, 1.95);
}

TEST(DarknetJitter, RefusesImpossibleOptions) {
  EXPECT_THROW(DarknetJitter({.size = {0, 1}}), Error);
  EXPECT_THROW(DarknetJitter({.jitter = 1}), Error);
  EXPECT_THROW(DarknetJitter({.min_scale = 0}), Error);
  EXPECT_THROW(DarknetJitter({.min_scale = 3}), Error);
}

}  // namespace
}  // namespace detforge
