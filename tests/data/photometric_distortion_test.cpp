#include "detforge/data/photometric_distortion.h"

#include <algorithm>
#include <cstdlib>
#include <set>

#include <gtest/gtest.h>
#include <opencv2/imgproc.hpp>

#include "data/sample_masks.h"
#include "detforge/core/error.h"

namespace detforge {
namespace {

Image one_pixel(std::uint8_t blue, std::uint8_t green, std::uint8_t red) {
  return {1, 1, {blue, green, red}};
}

std::vector<std::uint8_t> changed(Image image, const PhotometricChange& change) {
  change_colours_(image, change);
  return image.bgr;
}

/// mmdetection's steps, one after the other, with OpenCV's conversions of f32 images.
std::vector<std::uint8_t> reference(const Image& image, const PhotometricChange& change) {
  const cv::Mat bytes(static_cast<int>(image.height), static_cast<int>(image.width), CV_8UC3,
                      const_cast<std::uint8_t*>(image.bgr.data()));
  cv::Mat pixels, hsv;
  bytes.convertTo(pixels, CV_32FC3);
  pixels += cv::Scalar::all(change.brightness);
  if (change.contrast_first) {
    pixels *= change.contrast;
  }
  cv::cvtColor(pixels, hsv, cv::COLOR_BGR2HSV);
  for (auto& pixel : cv::Mat_<cv::Vec3f>(hsv)) {
    pixel[1] *= change.saturation;
    pixel[0] += change.hue;
    pixel[0] -= pixel[0] > 360 ? 360.F : 0.F;
    pixel[0] += pixel[0] < 0 ? 360.F : 0.F;
  }
  cv::cvtColor(hsv, pixels, cv::COLOR_HSV2BGR);
  if (!change.contrast_first) {
    pixels *= change.contrast;
  }
  std::vector<std::uint8_t> out;
  for (const auto& pixel : cv::Mat_<cv::Vec3f>(pixels)) {
    for (const std::size_t channel : change.channels) {
      out.push_back(static_cast<std::uint8_t>(
          std::clamp(pixel[static_cast<int>(channel)], 0.F, 255.F) + 0.5F));
    }
  }
  return out;
}

using Bytes = std::vector<std::uint8_t>;

TEST(ChangeColours, DefaultChangesNothing) {
  const Image image = test::noisy_sample({37, 53}, 2).image;
  EXPECT_EQ(changed(image, {}), image.bgr);
}

// (20, 100, 200): V = 200, S = 0.9, H = 60 * (100 - 20) / 180 = 26.67 degrees.
TEST(ChangeColours, HandComputedPixel) {
  const Image image = one_pixel(20, 100, 200);
  EXPECT_EQ(changed(image, {.brightness = 10}), (Bytes{30, 110, 210}));
  EXPECT_EQ(changed(image, {.brightness = -25}), (Bytes{0, 75, 175}));  // -5 is clamped at the end
  EXPECT_EQ(changed(image, {.contrast = 1.5F}), (Bytes{30, 150, 255}));
  // Brightness comes before contrast, and contrast before HSV changes nothing else here.
  EXPECT_EQ(changed(image, {.brightness = 10, .contrast = 0.5F, .contrast_first = true}),
            (Bytes{15, 55, 105}));
  // S 0.45: distances to V halve.
  EXPECT_EQ(changed(image, {.saturation = 0.5F}), (Bytes{110, 150, 200}));
  // S 1.35 gives -70 for blue, 50 for green: no bounds before the end.
  EXPECT_EQ(changed(image, {.saturation = 1.5F}), (Bytes{0, 50, 200}));
  // 120 degrees further, what was red is green, and so on round the circle.
  EXPECT_EQ(changed(image, {.hue = 120}), (Bytes{100, 200, 20}));
  EXPECT_EQ(changed(image, {.hue = -120}), (Bytes{200, 20, 100}));
  EXPECT_EQ(changed(image, {.channels = {2, 0, 1}}), (Bytes{200, 20, 100}));
}

// Both are f32; their roundings may fall to different sides of .5 now and then.
TEST(ChangeColours, EqualsOpenCvStepByStep) {
  const PhotometricDistortion distortion({});
  std::int64_t values = 0, different = 0;
  for (std::uint64_t i = 0; i < 200; ++i) {
    const Image image = test::noisy_sample({23, 31}, i).image;
    Rng rng(8, RngPurpose::kAugment, i);
    const PhotometricChange change = distortion.draw(rng);
    const Bytes expected = reference(image, change), actual = changed(image, change);
    ASSERT_EQ(expected.size(), actual.size());
    for (std::size_t k = 0; k < actual.size(); ++k, ++values) {
      ASSERT_LE(std::abs(expected[k] - actual[k]), 1) << "change " << i;
      different += expected[k] == actual[k] ? 0 : 1;
    }
  }
  EXPECT_LT(different, values / 5000);
}

TEST(PhotometricDistortion, DrawsEveryPartInItsRangeHalfOfTheTime) {
  const PhotometricDistortion distortion({});
  int brightness = 0, contrast = 0, first = 0, saturation = 0, hue = 0, swapped = 0;
  std::set<std::array<std::size_t, 3>> orders;
  for (std::uint64_t i = 0; i < 4000; ++i) {
    Rng rng(2, RngPurpose::kAugment, i);
    const PhotometricChange change = distortion.draw(rng);
    EXPECT_LE(std::abs(change.brightness), 32);
    EXPECT_LE(std::abs(change.hue), 18);
    EXPECT_GE(std::min(change.contrast, change.saturation), 0.5F);
    EXPECT_LE(std::max(change.contrast, change.saturation), 1.5F);
    brightness += change.brightness != 0 ? 1 : 0;
    contrast += change.contrast != 1 ? 1 : 0;
    first += change.contrast_first ? 1 : 0;
    saturation += change.saturation != 1 ? 1 : 0;
    hue += change.hue != 0 ? 1 : 0;
    swapped += change.channels != std::array<std::size_t, 3>{0, 1, 2} ? 1 : 0;
    orders.insert(change.channels);
  }
  for (const int count : {brightness, contrast, first, saturation, hue}) {
    EXPECT_NEAR(count, 2000, 127);  // 4 standard deviations of the binomial
  }
  EXPECT_NEAR(swapped, 4000 * 5 / 12, 125);  // one of the six orders changes nothing
  EXPECT_EQ(orders.size(), 6U);
}

TEST(PhotometricDistortion, LeavesObjectsAlone) {
  Sample sample = test::noisy_sample({20, 30}, 1);
  test::add_polygon(sample, {1, 2, 10, 12});
  const Sample before = sample;
  Rng rng(3, RngPurpose::kAugment);
  PhotometricDistortion({}).apply(sample, rng);
  EXPECT_NE(sample.image.bgr, before.image.bgr);
  EXPECT_EQ(sample.instances[0].box, before.instances[0].box);
  EXPECT_EQ(sample.instances[0].segmentation.polygons, before.instances[0].segmentation.polygons);
}

TEST(PhotometricDistortion, RefusesImpossibleRanges) {
  EXPECT_THROW(PhotometricDistortion({.brightness = -1}), Error);
  EXPECT_THROW(PhotometricDistortion({.min_contrast = 2}), Error);
  EXPECT_THROW(PhotometricDistortion({.max_saturation = 0.1}), Error);
  EXPECT_THROW(PhotometricDistortion({.hue = 400}), Error);
}

}  // namespace
}  // namespace detforge
