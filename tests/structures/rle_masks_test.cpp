// Run lengths to and from bitmaps and text, and merging.
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "data/coco_files.h"
#include "detforge/core/files.h"
#include "detforge/structures/rle.h"
#include "detforge/structures/rle_builder.h"
#include "structures/naive_masks.h"
#include "support/npz.h"
#include "support/test_data.h"

namespace detforge {
namespace {

using test::Bitmap;
using test::error_of;
using Counts = std::vector<std::uint32_t>;
constexpr int kRandomMasks = 300;

Rng test_rng(std::uint64_t stream) {
  return {17, RngPurpose::kTest, stream};
}

// Rows of a 3 x 4 mask; column-major 000 011 110 000: runs 4 4 4.
TEST(RleMask, HandMadeMaskGoesToRunsAndBack) {
  const std::vector<std::uint8_t> rows{0, 0, 1, 0,   //
                                       0, 9, 1, 0,   //
                                       0, 1, 0, 0};  // 9: any non-zero value is set
  const Rle rle = encode_mask(rows, {3, 4});
  EXPECT_EQ(rle, (Rle{{3, 4}, {4, 4, 4}}));
  std::vector<std::uint8_t> back(12, 7);
  decode_mask(rle, back);
  EXPECT_EQ(back, (std::vector<std::uint8_t>{0, 0, 1, 0, 0, 1, 1, 0, 0, 1, 0, 0}));
}

TEST(RleMask, EmptyAndFullMasks) {
  EXPECT_EQ(encode_mask(std::vector<std::uint8_t>(6, 0), {2, 3}).counts, (Counts{6}));
  EXPECT_EQ(encode_mask(std::vector<std::uint8_t>(6, 1), {2, 3}).counts, (Counts{0, 6}));
}

TEST(RleMask, RunsEqualNaiveRunsAndRoundTrip) {
  Rng rng = test_rng(1);
  for (int i = 0; i < kRandomMasks; ++i) {
    Bitmap bitmap = test::random_bitmap(rng);
    const Rle rle = encode_mask(bitmap.pixels, bitmap.size);
    ASSERT_EQ(rle, test::naive_runs(bitmap)) << "mask " << i;
    Bitmap back(bitmap.size);
    decode_mask(rle, back.pixels);
    ASSERT_EQ(back, test::naive_bitmap(rle)) << "mask " << i;
    ASSERT_EQ(encode_mask(back.pixels, back.size), rle) << "mask " << i;
    ASSERT_EQ(decode_rle_counts(encode_rle_counts(rle.counts)), rle.counts) << "mask " << i;
    ASSERT_EQ(rle_area(rle.counts), std::count(back.pixels.begin(), back.pixels.end(), 1));
  }
}

TEST(RleMask, TextOfAnyRunsRoundTrips) {
  Rng rng = test_rng(2);
  for (int i = 0; i < kRandomMasks; ++i) {
    Counts counts(rng.below(20));
    for (std::uint32_t& run : counts) {
      run = static_cast<std::uint32_t>(rng.next_u64() >> (32 + rng.below(32)));
    }
    ASSERT_EQ(decode_rle_counts(encode_rle_counts(counts)), counts) << "list " << i;
  }
  const Counts extremes{UINT32_MAX, 0, 0, UINT32_MAX, UINT32_MAX, 0};
  EXPECT_EQ(decode_rle_counts(encode_rle_counts(extremes)), extremes);
}

TEST(RleMask, RefusesWhatDoesNotFit) {
  std::vector<std::uint8_t> bitmap(12, 5);
  EXPECT_NE(error_of([&] { encode_mask(bitmap, {3, 5}); }).find("12 bytes"), std::string::npos);
  EXPECT_NE(error_of([&] { encode_mask(bitmap, {-3, -4}); }).find("-3 x -4"), std::string::npos);
  EXPECT_NE(error_of([&] { RleBuilder(ImageSize{1 << 16, 1 << 16}); }), "");
  EXPECT_NE(error_of([&] { RleBuilder(ImageSize{INT64_MAX, INT64_MAX}); }), "");
  EXPECT_NE(error_of([&] {
              decode_mask(Rle{{3, 5}, {15}}, bitmap);
            }).find("12 bytes"),
            std::string::npos);
  EXPECT_NE(error_of([&] {
              decode_mask(Rle{{3, 4}, {4, 9}}, bitmap);
            }).find("sum to 13"),
            std::string::npos);
  EXPECT_EQ(bitmap, std::vector<std::uint8_t>(12, 5));  // nothing was written
  const Rle wide{{3, 4}, {12}}, tall{{4, 3}, {12}}, cut{{3, 4}, {11}};
  EXPECT_NE(error_of([&] {
              merge_masks(std::vector<RleView>{wide, tall});
            }).find("cannot be"),
            std::string::npos);
  EXPECT_NE(error_of([&] {
              merge_masks(std::vector<RleView>{wide, cut});
            }).find("sum to 11"),
            std::string::npos);
  EXPECT_NE(error_of([&] { merge_masks({}); }), "");
}

// Runs of zero length inside, as other tools write them, change nothing but the form.
TEST(RleMask, RunsOfZeroLengthAreHarmless) {
  const Rle odd{{3, 4}, {0, 0, 4, 2, 0, 2, 0, 0, 4}}, plain{{3, 4}, {4, 4, 4}};
  std::vector<std::uint8_t> a(12), b(12);
  decode_mask(odd, a);
  decode_mask(plain, b);
  EXPECT_EQ(a, b);
  EXPECT_EQ(merge_masks(std::vector<RleView>{odd, odd}), plain);
}

TEST(RleMask, MergesEqualPixelwiseAnswer) {
  Rng rng = test_rng(3);
  for (int i = 0; i < kRandomMasks; ++i) {
    std::vector<Bitmap> bitmaps{test::random_bitmap(rng)};
    const ImageSize size = bitmaps[0].size;
    for (std::uint64_t more = rng.below(3); more > 0; --more) {
      Bitmap& next = bitmaps.emplace_back(size);
      for (std::uint8_t& pixel : next.pixels) {
        pixel = static_cast<std::uint8_t>(rng.below(2));
      }
    }
    Bitmap united(size), common(size);
    std::vector<Rle> masks;
    for (const Bitmap& bitmap : bitmaps) {
      masks.push_back(encode_mask(bitmap.pixels, size));
    }
    for (std::size_t p = 0; p < united.pixels.size(); ++p) {
      const auto set = [p](const Bitmap& bitmap) { return bitmap.pixels[p] != 0; };
      united.pixels[p] = std::any_of(bitmaps.begin(), bitmaps.end(), set);
      common.pixels[p] = std::all_of(bitmaps.begin(), bitmaps.end(), set);
    }
    const std::vector<RleView> views(masks.begin(), masks.end());
    ASSERT_EQ(merge_masks(views), test::naive_runs(united)) << "case " << i;
    ASSERT_EQ(merge_masks(views, true), test::naive_runs(common)) << "case " << i;
  }
}

bool is_rle_case(const nlohmann::json& description) {
  return description["files"].contains("rle.json");
}

TEST(RleMaskParity, EqualsPycocotools) {
  const auto cases = test::parity_cases(is_rle_case);
  ASSERT_FALSE(cases.empty());
  for (const test::ParityCase& folder : cases) {
    SCOPED_TRACE(folder.folder);
    const auto json = nlohmann::json::parse(files::read(folder.folder / "rle.json"));
    const test::Npz npz = test::read_npz(folder.folder / "rle.npz");
    const ImageSize size{json["height"], json["width"]};
    const auto pixels = static_cast<std::size_t>(size.height * size.width);
    const auto* bitmap = reinterpret_cast<const std::uint8_t*>(npz.at("masks").bytes.data());
    const std::vector<double> boxes = npz.at("bbox").to_double();
    std::vector<Rle> masks;
    for (std::size_t i = 0; i < json["masks"].size(); ++i, bitmap += pixels) {
      const Rle& rle = masks.emplace_back(encode_mask({bitmap, pixels}, size));
      EXPECT_EQ(encode_rle_counts(rle.counts), json["masks"][i]["counts"]);
      EXPECT_EQ(nlohmann::json(rle.counts), json["masks"][i]["counts_uncompressed"]);
      std::vector<std::uint8_t> back(pixels);
      decode_mask(rle, back);
      EXPECT_TRUE(std::equal(back.begin(), back.end(), bitmap));
      EXPECT_EQ(rle_area(rle.counts), npz.at("area").to_i64()[i]);
      const Box box = rle_box(rle.counts, size.height);
      EXPECT_EQ((std::vector<double>{box.x1, box.y1, box.width(), box.height()}),
                std::vector<double>(boxes.begin() + 4 * static_cast<std::ptrdiff_t>(i),
                                    boxes.begin() + 4 * static_cast<std::ptrdiff_t>(i) + 4));
    }
    const std::vector<RleView> first_two{masks[0], masks[1]};
    EXPECT_EQ(encode_rle_counts(merge_masks(first_two).counts), json["merge_union_0_1"]);
    EXPECT_EQ(encode_rle_counts(merge_masks(first_two, true).counts), json["merge_intersect_0_1"]);
  }
}

}  // namespace
}  // namespace detforge
