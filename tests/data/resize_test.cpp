#include "detforge/data/resize.h"

#include <string>

#include <gtest/gtest.h>

#include "detforge/core/error.h"
#include "detforge/core/rng.h"
#include "support/npz.h"
#include "support/test_data.h"

namespace detforge {
namespace {

Image random_image(ImageSize size, std::uint64_t seed) {
  Rng rng(seed, RngPurpose::kTest);
  Image image{size.height, size.width,
              std::vector<std::uint8_t>(static_cast<std::size_t>(size.height * size.width * 3))};
  for (auto& value : image.bgr) {
    value = static_cast<std::uint8_t>(rng.below(256));
  }
  return image;
}

TEST(ResizeBilinear, DoublingAPairGivesQuarterSteps) {
  // Output centres lie at 0.25, 0.75, 1.25, 1.75 input pixels. The outer two see only their own
  // pixel; the inner two mix 3/4 of the near one and 1/4 of the other: 0.75 * 0 + 0.25 * 100 = 25.
  const Image pair{1, 2, {0, 0, 0, 100, 100, 100}};
  EXPECT_EQ(resize_bilinear(pair, {1, 4}).bgr,
            (std::vector<std::uint8_t>{0, 0, 0, 25, 25, 25, 75, 75, 75, 100, 100, 100}));
}

TEST(ResizeBilinear, HalvingAveragesWithATriangle) {
  // Scale 2: support 2 pixels around centre 1.0; weights of pixels 0, 1, 2 (centres .5, 1.5, 2.5)
  // are .75, .75, .25 of 1.75. (0 * .75 + 70 * .75 + 140 * .25) / 1.75 = 50.
  const Image row{1, 4, {0, 0, 0, 70, 70, 70, 140, 140, 140, 140, 140, 140}};
  EXPECT_EQ(resize_bilinear(row, {1, 2}).bgr[0], 50);
}

TEST(ResizeBilinear, SameSizeIsTheSameImage) {
  const Image image = random_image({7, 9}, 1);
  EXPECT_EQ(resize_bilinear(image, {7, 9}).bgr, image.bgr);
}

TEST(ResizeBilinear, ConstantImageStaysConstant) {
  const Image image{5, 4, std::vector<std::uint8_t>(60, 255)};
  for (const ImageSize size : {ImageSize{1, 1}, ImageSize{13, 3}, ImageSize{2, 50}}) {
    const Image resized = resize_bilinear(image, size);
    EXPECT_EQ(resized.bgr, std::vector<std::uint8_t>(resized.bgr.size(), 255));
  }
}

TEST(ResizeBilinear, ImpossibleSizesAreErrors) {
  EXPECT_THROW(resize_bilinear(random_image({2, 2}, 1), {0, 3}), Error);
  EXPECT_THROW(resize_bilinear(Image{}, {3, 3}), Error);
}

TEST(ResizeBilinearProperty, SimdAndPortableCodeGiveTheSameBytes) {
  Rng rng(3, RngPurpose::kTest);
  const auto side = [&] {
    return 1 + static_cast<std::int64_t>(rng.below(rng.below(2) == 0 ? 12 : 150));
  };
  for (std::uint64_t i = 0; i < 300; ++i) {
    const ImageSize from{side(), side()}, to{side(), side()};
    const Image image = random_image(from, i);
    ASSERT_EQ(resize_bilinear(image, to).bgr,
              resize_detail::resize_bilinear_portable(image, to).bgr)
        << from.height << "x" << from.width << " to " << to.height << "x" << to.width;
  }
}

TEST(ResizeNearest, PicksThePixelUnderEachCentre) {
  const LabelMap map{1, 3, {1, 2, 3}};
  EXPECT_EQ(resize_nearest(map, {1, 6}).values, (std::vector<std::uint8_t>{1, 1, 2, 2, 3, 3}));
  EXPECT_EQ(resize_nearest(map, {2, 1}).values, (std::vector<std::uint8_t>{2, 2}));
}

// 5000 x 1 at 800: first 4000000 x 800, then times 1333 / 4000000: the width 0.27 would become 0.
TEST(ShortestEdgeSize, IsAtLeastOnePixel) {
  EXPECT_EQ(shortest_edge_size({5000, 1}, 800, 1333), (ImageSize{1333, 1}));
  EXPECT_EQ(shortest_edge_size({1, 5000}, 800, 1333), (ImageSize{1, 1333}));
}

// --- parity with Pillow and Detectron2

bool is_resize_case(const nlohmann::json& description) {
  return description.contains("files") && description["files"].contains("resize.npz");
}

std::vector<test::Npz> resize_cases() {
  std::vector<test::Npz> cases;
  for (const auto& parity : test::parity_cases(is_resize_case)) {
    cases.push_back(test::read_npz(parity.folder / "resize.npz"));
  }
  return cases;
}

std::vector<std::uint8_t> to_bytes(const test::NpyArray& array) {
  return {array.bytes.begin(), array.bytes.end()};
}

TEST(ResizeParity, BilinearEqualsPillowBitForBit) {
  const auto cases = resize_cases();
  ASSERT_FALSE(cases.empty());
  for (const auto& arrays : cases) {
    int compared = 0;
    for (int i = 0; arrays.contains("r" + std::to_string(i) + "/in"); ++i, ++compared) {
      const std::string prefix = "r" + std::to_string(i);
      const auto& in = arrays.at(prefix + "/in");
      const auto& out = arrays.at(prefix + "/out");
      // Channels do not mix, so RGB serves as well as BGR.
      const Image image{in.shape[0], in.shape[1], to_bytes(in)};
      EXPECT_EQ(resize_bilinear(image, {out.shape[0], out.shape[1]}).bgr, to_bytes(out)) << prefix;
      EXPECT_EQ(resize_detail::resize_bilinear_portable(image, {out.shape[0], out.shape[1]}).bgr,
                to_bytes(out))
          << prefix;
    }
    EXPECT_GT(compared, 0);
  }
}

TEST(ResizeParity, NearestEqualsPillow) {
  const auto cases = resize_cases();
  ASSERT_FALSE(cases.empty());
  for (const auto& arrays : cases) {
    int compared = 0;
    for (int i = 0; arrays.contains("r" + std::to_string(i) + "/seg_in"); ++i, ++compared) {
      const std::string prefix = "r" + std::to_string(i);
      const auto& in = arrays.at(prefix + "/seg_in");
      const auto& out = arrays.at(prefix + "/seg_out");
      const LabelMap map{in.shape[0], in.shape[1], to_bytes(in)};
      EXPECT_EQ(resize_nearest(map, {out.shape[0], out.shape[1]}).values, to_bytes(out)) << prefix;
    }
    EXPECT_GT(compared, 0);
  }
}

TEST(ResizeParity, OutputSizesEqualDetectron2) {
  const auto cases = resize_cases();
  ASSERT_FALSE(cases.empty());
  for (const auto& arrays : cases) {
    const auto rows = arrays.at("sizes").to_i64();
    ASSERT_GE(rows.size(), 6U);
    for (std::size_t i = 0; i + 5 < rows.size(); i += 6) {
      const ImageSize expected{rows[i + 4], rows[i + 5]};
      EXPECT_EQ(shortest_edge_size({rows[i], rows[i + 1]}, rows[i + 2], rows[i + 3]), expected)
          << "row " << i / 6;
    }
  }
}

}  // namespace
}  // namespace detforge
