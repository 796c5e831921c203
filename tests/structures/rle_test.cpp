#include "detforge/structures/rle.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "data/coco_files.h"
#include "detforge/core/error.h"
#include "detforge/core/files.h"

namespace detforge {
namespace {

using test::error_of;
using Counts = std::vector<std::uint32_t>;

// A 3 x 4 (height x width) mask, columns top to bottom: 000 011 110 000 -> runs 4 4 4.
TEST(Rle, DecodesHandMadeText) {
  // 4 fits one group: '0' + 4 = '4'. The third run is not yet a difference, as in pycocotools
  // (index > 2).
  EXPECT_EQ(decode_rle_counts("444"), (Counts{4, 4, 4}));
  // Fourth value is a difference to the second run: 4 + 0 -> '0'. Fifth: 4 - 1 -> 0x1F without more
  // -> 'O'.
  EXPECT_EQ(decode_rle_counts("4440O"), (Counts{4, 4, 4, 4, 3}));
  // 100 = 0b00011'00100: low group 4 with more (4 + 32 + 48 = 'T'), then 3.
  EXPECT_EQ(decode_rle_counts("T3"), (Counts{100}));
}

TEST(Rle, AreaAndBoxOfHandMadeMask) {
  const Counts counts{4, 4, 4};
  EXPECT_EQ(rle_area(counts), 4);
  EXPECT_EQ(rle_box(counts, 3), (Box{1, 0, 3, 3}));  // rows 1-2 of column 1, rows 0-1 of column 2
  EXPECT_EQ(rle_box(Counts{4, 1, 7}, 3), (Box{1, 1, 2, 2}));
  EXPECT_EQ(rle_box(Counts{12}, 3), Box{});
}

TEST(Rle, RefusesDamagedText) {
  EXPECT_NE(error_of([] { decode_rle_counts("4 4"); }).find("outside 48..111"), std::string::npos);
  EXPECT_NE(error_of([] { decode_rle_counts("44T"); }).find("does not end"), std::string::npos);
  EXPECT_NE(error_of([] { decode_rle_counts("oooooooooooo0"); }).find("does not end"),
            std::string::npos);
  EXPECT_NE(error_of([] { decode_rle_counts("O"); }).find("run 0"), std::string::npos);  // -1
  EXPECT_NE(error_of([] { check_rle(Counts{4, 4}, {3, 4}); }).find("sum to 8"), std::string::npos);
  EXPECT_NE(error_of([] { check_rle(Counts{}, {0, 4}); }), "");
}

TEST(Rle, PolygonAreaIsShoelace) {
  const std::vector<double> triangle{10, 10, 14, 10, 10, 13};
  EXPECT_DOUBLE_EQ(polygon_area(triangle), 6);
  EXPECT_DOUBLE_EQ(polygon_area(std::vector<double>{0, 0, 5, 5, 9, 9}), 0);
  EXPECT_EQ(polygon_box(triangle), (Box{10, 10, 14, 13}));
}

// Every compressed RLE of the real set: its area key is the pixel count and its bbox the tight box.
TEST(RleParity, NucleiAreasAndBoxesAreExact) {
  DETFORGE_REQUIRE_TEST_DATA("nuclei");
  const auto json =
      nlohmann::json::parse(files::read(test::test_data_dir() / "nuclei/annotations/val.json"));
  std::size_t seen = 0;
  for (const auto& annotation : json["annotations"]) {
    const auto& rle = annotation["segmentation"];
    const Counts counts = decode_rle_counts(rle["counts"].get<std::string>());
    const std::int64_t height = rle["size"][0];
    check_rle(counts, {height, rle["size"][1]});
    ASSERT_EQ(rle_area(counts), annotation["area"].get<std::int64_t>());
    const Box box = rle_box(counts, height);
    ASSERT_EQ(nlohmann::json({box.x1, box.y1, box.width(), box.height()}),
              nlohmann::json(annotation["bbox"].get<std::vector<double>>()));
    ++seen;
  }
  EXPECT_EQ(seen, 1863u);
}

}  // namespace
}  // namespace detforge
