// Bilinear resampling as OpenCV does it, and mmdetection's sizes.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <opencv2/imgproc.hpp>

#include "data/sample_masks.h"
#include "detforge/core/error.h"
#include "detforge/data/resize.h"
#include "detforge/data/resize_range.h"
#include "support/npz.h"
#include "support/test_data.h"

namespace detforge {
namespace {

std::vector<std::uint8_t> opencv_resize(const Image& image, ImageSize size) {
  const cv::Mat in(static_cast<int>(image.height), static_cast<int>(image.width), CV_8UC3,
                   const_cast<std::uint8_t*>(image.bgr.data()));
  cv::Mat out;
  cv::resize(in, out, {static_cast<int>(size.width), static_cast<int>(size.height)}, 0, 0,
             cv::INTER_LINEAR);
  return {out.data, out.data + out.total() * 3};
}

// Pixel centres of the wide image lie at -0.25, 0.25, 0.75, 1.25 pixels of the narrow one's: 0, a
// quarter, three quarters, the whole of the way from 0 to 100.
TEST(ResizeBilinearOpenCv, MixesTheTwoNearestPixels) {
  const Image image{1, 2, {0, 10, 20, 100, 10, 60}};
  const Image wide = resize_bilinear_opencv(image, {1, 4});
  EXPECT_EQ(wide.bgr, (std::vector<std::uint8_t>{0, 10, 20, 25, 10, 30, 75, 10, 50, 100, 10, 60}));
}

// To a third, the pixel in the middle counts alone: no antialiasing, unlike Pillow's.
TEST(ResizeBilinearOpenCv, LooksAtTwoPixelsAlsoWhenItShrinks) {
  const Image image{1, 3, {0, 0, 0, 90, 90, 90, 240, 240, 240}};
  EXPECT_EQ(resize_bilinear_opencv(image, {1, 1}).bgr, (std::vector<std::uint8_t>{90, 90, 90}));
}

TEST(ResizeBilinearOpenCv, HalvesByTheMeanOfFourPixels) {
  const Image image{2, 2, {0, 1, 2, 1, 1, 2, 0, 1, 3, 1, 1, 3}};
  EXPECT_EQ(resize_bilinear_opencv(image, {1, 1}).bgr, (std::vector<std::uint8_t>{1, 1, 3}));
}

TEST(ResizeBilinearOpenCv, RefusesASizeOfZero) {
  EXPECT_THROW(resize_bilinear_opencv({1, 1, {0, 0, 0}}, {0, 3}), Error);
}

TEST(ResizeBilinearOpenCv, EqualsOpenCvForRandomSizes) {
  Rng rng(4, RngPurpose::kTest);
  for (std::uint64_t i = 0; i < 400; ++i) {
    const Image image = test::noisy_sample({rng.between(1, 70), rng.between(1, 70)}, i).image;
    ImageSize size{rng.between(1, 150), rng.between(1, 150)};
    if (i % 10 == 0) {  // whole factors
      size = {std::max<std::int64_t>(1, image.height / rng.between(1, 4)),
              std::max<std::int64_t>(1, image.width / rng.between(1, 4))};
    }
    EXPECT_EQ(resize_bilinear_opencv(image, size).bgr == opencv_resize(image, size), true)
        << image.height << "x" << image.width << " to " << size.height << "x" << size.width;
  }
}

bool is_yolo_units(const nlohmann::json& description) {
  return description.contains("files") && description["files"].contains("yolo_units.npz");
}

TEST(ResizeBilinearOpenCvParity, EqualsMmdetectionsPixels) {
  const auto cases = test::parity_cases(is_yolo_units);
  if (cases.empty()) {
    GTEST_SKIP() << "no unit_yolo case in DETFORGE_PARITY_DIR";
  }
  for (const auto& parity : cases) {
    const auto arrays = test::read_npz(parity.folder / "yolo_units.npz");
    std::size_t compared = 0;
    for (int i = 0; arrays.contains(fmt::format("resize{}/in", i)); ++i, ++compared) {
      const auto &in = arrays.at(fmt::format("resize{}/in", i)),
                 &out = arrays.at(fmt::format("resize{}/out", i));
      const Image image{in.shape[0], in.shape[1], {in.bytes.begin(), in.bytes.end()}};
      const std::vector<std::uint8_t> expected(out.bytes.begin(), out.bytes.end());
      EXPECT_EQ(resize_bilinear_opencv(image, {out.shape[0], out.shape[1]}).bgr == expected, true)
          << i;
    }
    EXPECT_GE(compared, 5U);
  }
}

TEST(KeepRatioSizeParity, EqualsMmdetections) {
  const auto cases = test::parity_cases(is_yolo_units);
  if (cases.empty()) {
    GTEST_SKIP() << "no unit_yolo case in DETFORGE_PARITY_DIR";
  }
  for (const auto& parity : cases) {
    const auto rows = test::read_npz(parity.folder / "yolo_units.npz").at("sizes").to_i64();
    ASSERT_GE(rows.size(), 500U);
    for (std::size_t i = 0; i + 4 < rows.size(); i += 5) {
      EXPECT_EQ(keep_ratio_size({rows[i], rows[i + 1]}, {rows[i + 2], rows[i + 2]}),
                (ImageSize{rows[i + 3], rows[i + 4]}))
          << rows[i] << "x" << rows[i + 1] << " to " << rows[i + 2];
    }
  }
}

// 100 x 200 into edges 300 and 120: the shorter side allows 1.2, the longer 1.5.
TEST(KeepRatioSize, FitsBothEdgesInEitherOrientation) {
  EXPECT_EQ(keep_ratio_size({100, 200}, {300, 120}), (ImageSize{120, 240}));
  EXPECT_EQ(keep_ratio_size({200, 100}, {120, 300}), (ImageSize{240, 120}));
  EXPECT_EQ(keep_ratio_size({1, 5000}, {100, 100}), (ImageSize{1, 100}));
}

TEST(ResizeRange, DrawsLongerAndShorterEdgeEachForItself) {
  const ResizeRange resize({.low = {10, 30}, .high = {20, 40}});  // shorter 10..20, longer 30..40
  std::int64_t least = 1000, most = 0;
  for (std::uint64_t i = 0; i < 600; ++i) {
    Sample sample = test::noisy_sample({20, 30}, 1);
    Rng rng(1, RngPurpose::kAugment, i);
    resize.apply(sample, rng);
    least = std::min(least, sample.image.height);
    most = std::max(most, sample.image.height);
    EXPECT_EQ(sample.image.width, (sample.image.height * 3 + 1) / 2);  // the shorter edge bounds
  }
  EXPECT_EQ(least, 10);
  EXPECT_EQ(most, 20);
  EXPECT_THROW(ResizeRange({.low = {20, 30}, .high = {10, 40}}), Error);
  EXPECT_THROW(ResizeRange({.low = {0, 30}, .high = {10, 40}}), Error);
}

}  // namespace
}  // namespace detforge
