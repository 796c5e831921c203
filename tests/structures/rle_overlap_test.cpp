#include "detforge/structures/rle_overlap.h"

#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "detforge/core/error.h"
#include "detforge/core/files.h"
#include "detforge/core/rng.h"
#include "detforge/structures/rle.h"
#include "support/npz.h"
#include "support/test_data.h"

namespace detforge {
namespace {

/// A bitmap in column-major order, as RLE sees it.
struct Bitmap {
  ImageSize size;
  std::vector<bool> pixels;
};

/// Random runs, some of length 0, some longer than a column; now and then nothing or everything.
Rle random_rle(Rng& rng, ImageSize size) {
  Rle rle{size, {}};
  auto left = static_cast<std::uint64_t>(size.height * size.width);
  const std::uint64_t longest =
      rng.below(4) == 0 ? left + 1 : 2 * static_cast<std::uint64_t>(size.height);
  while (left > 0) {
    const std::uint64_t run = std::min(left, rng.below(longest));
    rle.counts.push_back(static_cast<std::uint32_t>(run));
    left -= run;
  }
  return rle;
}

Bitmap bitmap_of(const Rle& rle) {
  Bitmap bitmap{rle.size, {}};
  for (std::size_t i = 0; i < rle.counts.size(); ++i) {
    bitmap.pixels.insert(bitmap.pixels.end(), rle.counts[i], i % 2 == 1);
  }
  return bitmap;
}

double naive_iou(const Bitmap& d, const Bitmap& g, bool crowd) {
  double both = 0, any = 0, detection = 0;
  for (std::size_t i = 0; i < d.pixels.size(); ++i) {
    both += d.pixels[i] && g.pixels[i] ? 1 : 0;
    any += d.pixels[i] || g.pixels[i] ? 1 : 0;
    detection += d.pixels[i] ? 1 : 0;
  }
  return both == 0 ? 0 : both / (crowd ? detection : any);
}

Rle from_text(const std::string& text, ImageSize size) {
  return {size, decode_rle_counts(text)};
}

// 3 x 4 (height x width), column-major:  a = 000 011 110 000    b = 001 110 010 000
// Both: pixel 4 and 7.  a has 4 pixels, b 4 (2, 3, 4, 7), together 6.
TEST(RleOverlap, HandMadePair) {
  const Rle a{{3, 4}, {4, 4, 4}}, b{{3, 4}, {2, 3, 2, 1, 4}};
  EXPECT_EQ(rle_intersection(a, b), 2);
  EXPECT_EQ(rle_iou(a, b, false), 2.0 / 6);
  EXPECT_EQ(rle_iou(a, b, true), 2.0 / 4);
  EXPECT_EQ(rle_iou(a, a, false), 1.0);
}

TEST(RleOverlap, EmptyMasksOverlapNothing) {
  const Rle none{{3, 4}, {12}}, no_runs{{3, 4}, {}}, all{{3, 4}, {0, 12}};
  EXPECT_EQ(rle_intersection(none, all), 0);
  EXPECT_EQ(rle_intersection(no_runs, all), 0);
  EXPECT_EQ(rle_iou(none, none, false), 0);
  EXPECT_EQ(rle_iou(none, none, true), 0);
  EXPECT_EQ(rle_iou(all, none, false), 0);
}

// More pixels than 32 bits can count: 100,000 x 100,000, all set but the first.
TEST(RleOverlap, CountsIn64Bits) {
  const std::uint32_t part = 2'500'000'000U;
  const Rle huge{{100'000, 100'000}, {1, part - 1, 0, part, 0, part, 0, part}};
  EXPECT_EQ(rle_intersection(huge, huge), 9'999'999'999);
  EXPECT_EQ(mask_extent(huge).area, 9'999'999'999);
}

TEST(RleOverlap, RefusesDifferentSizes) {
  EXPECT_THROW(rle_iou(Rle{{3, 4}, {0, 12}}, Rle{{4, 3}, {0, 12}}, false), Error);
}

TEST(RleOverlap, EqualsNaiveBitmapsAndIsSymmetric) {
  Rng rng(11, RngPurpose::kTest);
  for (int round = 0; round < 400; ++round) {
    const ImageSize size{static_cast<std::int64_t>(1 + rng.below(12)),
                         static_cast<std::int64_t>(1 + rng.below(12))};
    const Rle a = random_rle(rng, size), b = random_rle(rng, size);
    const bool crowd = round % 3 == 0;
    ASSERT_EQ(rle_iou(a, b, crowd), naive_iou(bitmap_of(a), bitmap_of(b), crowd)) << round;
    ASSERT_EQ(rle_intersection(a, b), rle_intersection(b, a)) << round;
  }
}

TEST(RleOverlapParity, IousOfPolygonMasksEqualPycocotools) {
  const auto cases = test::parity_cases([](const nlohmann::json& description) {
    return description.at("files").contains("rle.json") &&
           description.at("files").contains("rle.npz") &&
           description.at("files").at("rle.npz").at("arrays").contains("poly_iou");
  });
  ASSERT_FALSE(cases.empty());
  for (const test::ParityCase& parity : cases) {
    const auto json = nlohmann::json::parse(files::read(parity.folder / "rle.json"));
    const test::Npz arrays = test::read_npz(parity.folder / "rle.npz");
    const auto expected = arrays.at("poly_iou").to_double();
    const auto crowd = arrays.at("poly_iou_crowd").to_double();
    std::vector<Rle> masks;
    for (const auto& polygons : json.at("polygons")) {
      masks.push_back(from_text(polygons.at("merged"), {json.at("height"), json.at("width")}));
    }
    const std::size_t objects = crowd.size(), detections = expected.size() / objects;
    ASSERT_EQ(detections, 12U);  // masks 0..11 against masks 5..14
    for (std::size_t d = 0; d < detections; ++d) {
      for (std::size_t g = 0; g < objects; ++g) {
        EXPECT_EQ(rle_iou(masks[d], masks[g + 5], crowd[g] != 0), expected[d * objects + g])
            << d << " " << g;
      }
    }
  }
}

TEST(RleOverlapParity, MatricesOfRealMasksEqualPycocotools) {
  DETFORGE_REQUIRE_TEST_DATA("cocoeval/coco_sample_val/masks.json");
  const auto json = nlohmann::json::parse(
      files::read(test::test_data_dir() / "cocoeval" / "coco_sample_val" / "masks.json"));
  std::map<std::int64_t, Rle> masks;
  for (const auto& mask : json.at("masks")) {
    const Rle rle = from_text(mask.at("counts"), {mask.at("size")[0], mask.at("size")[1]});
    EXPECT_EQ(mask_extent(rle).area, mask.at("area").get<std::int64_t>());
    masks.emplace(mask.at("id").get<std::int64_t>(), rle);
  }
  std::size_t compared = 0;
  for (const auto& image : json.at("iou")) {
    const auto& ids = image.at("ids");
    for (std::size_t d = 0; d < ids.size(); ++d) {
      for (std::size_t g = 0; g < ids.size(); ++g, ++compared) {
        // The file holds 12 decimals.
        EXPECT_NEAR(rle_iou(masks.at(ids[d]), masks.at(ids[g]), image.at("iscrowd")[g] != 0),
                    image.at("mask_iou")[d][g].get<double>(), 5.1e-13);
      }
    }
  }
  EXPECT_GT(compared, 500U);
}

}  // namespace
}  // namespace detforge
