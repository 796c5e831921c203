#include "detforge/structures/polygon_raster.h"

#include <limits>
#include <map>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "data/coco_files.h"
#include "detforge/core/files.h"
#include "detforge/structures/rle.h"
#include "structures/naive_masks.h"
#include "support/test_data.h"

namespace detforge {
namespace {

using test::error_of;
using Json = nlohmann::json;
using Polygon = std::vector<double>;

std::string text_of(const Rle& rle) {
  return encode_rle_counts(rle.counts);
}

// The corners of pixels 1..2 x 1..3: exactly those pixels are inside. Columns of a 4 x 5 image:
// 0000 0110 0110 0110 0000 -> runs 5 2 2 2 2 2 5.
TEST(PolygonMask, RectangleOnPixelEdges) {
  const Rle rle = polygon_mask(Polygon{1, 1, 4, 1, 4, 3, 1, 3}, {4, 5});
  EXPECT_EQ(rle.counts, (std::vector<std::uint32_t>{5, 2, 2, 2, 2, 2, 5}));
}

TEST(PolygonMask, NothingInsideSetsNothing) {
  const std::vector<std::uint32_t> none{20};
  EXPECT_EQ(polygon_mask(Polygon{}, {4, 5}).counts, none);
  EXPECT_EQ(polygon_mask(Polygon{1}, {4, 5}).counts, none);
  EXPECT_EQ(polygon_mask(Polygon{1, 1}, {4, 5}).counts, none);
  EXPECT_EQ(polygon_mask(Polygon{1, 1, 1, 1, 1, 1}, {4, 5}).counts, none);
  EXPECT_EQ(polygon_mask(Polygon{9, 1, 12, 1, 12, 3, 9, 3}, {4, 5}).counts, none);
  EXPECT_EQ(polygons_mask({}, {4, 5}).counts, none);
}

// Corners of every kind: fractions, whole pixels, halves, repeated, outside, vertical and
// horizontal edges, self-crossing.
Polygon random_polygon(Rng& rng, ImageSize size) {
  Polygon xy;
  const std::uint64_t kind = rng.below(4);
  const double margin = kind == 0 ? 0 : kind == 1 ? 3 : 200;
  for (std::uint64_t i = 1 + rng.below(12); i > 0; --i) {
    double x = rng.uniform(-margin, static_cast<double>(size.width) + margin);
    double y = rng.uniform(-margin, static_cast<double>(size.height) + margin);
    if (kind == 2) {
      x = std::round(2 * x) / 2;
      y = std::round(2 * y) / 2;
    }
    const bool repeat = !xy.empty() && rng.below(5) == 0;
    xy.push_back(repeat ? xy[xy.size() - 2] : x);
    xy.push_back(!xy.empty() && xy.size() > 2 && rng.below(5) == 0 ? xy[xy.size() - 2] : y);
  }
  return xy;
}

TEST(PolygonMask, EqualsWalkingTheOutline) {
  Rng rng(23, RngPurpose::kTest, 1);
  for (int i = 0; i < 4000; ++i) {
    const ImageSize size{static_cast<std::int64_t>(1 + rng.below(40)),
                         static_cast<std::int64_t>(1 + rng.below(40))};
    const Polygon xy = random_polygon(rng, size);
    ASSERT_EQ(polygon_mask(xy, size), test::naive_runs(test::naive_polygon(xy, size)))
        << "polygon " << i << ": " << Json(xy) << " in " << size.height << " x " << size.width;
  }
}

TEST(PolygonMask, FarCornersEqualWalkingTheOutline) {
  Rng rng(23, RngPurpose::kTest, 2);
  for (int i = 0; i < 40; ++i) {
    Polygon xy;
    for (int k = 0; k < 6; ++k) {
      xy.push_back(rng.uniform(-4e4, 4e4));
    }
    ASSERT_EQ(polygon_mask(xy, {30, 50}), test::naive_runs(test::naive_polygon(xy, {30, 50})))
        << Json(xy);
  }
}

// The image lies inside, so all of it is set, at once; coordinates beyond any integer.
TEST(PolygonMask, HugeCoordinatesAreClamped) {
  for (const double far : {1e7, 1e12, 1e300, std::numeric_limits<double>::max()}) {
    const Polygon xy{-far, -far, far, -far, far, far, -far, far};
    EXPECT_EQ(polygon_mask(xy, {30, 50}).counts, (std::vector<std::uint32_t>{0, 1500})) << far;
    const Polygon steep{-3, -far, 20, far, 20, -far};  // right of its left edge and left of x = 20
    EXPECT_EQ(rle_box(polygon_mask(steep, {30, 50}).counts, 30).x2, 20) << far;
  }
}

TEST(PolygonMask, RefusesWhatIsNoNumberOrSize) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_NE(error_of([&] {
              polygon_mask(Polygon{1, 1, nan, 3, 2, 5}, {4, 5});
            }).find("nan"),
            std::string::npos);
  EXPECT_NE(error_of([&] { polygon_mask(Polygon{1, 1, 3, -infinity, 2, 5}, {4, 5}); }), "");
  EXPECT_NE(error_of([&] { polygon_mask(Polygon{1, 1, 3, 3, 2, 5}, {0, 5}); }), "");
}

TEST(PolygonMask, PartsAreUnited) {
  const Polygon left{0, 0, 2, 0, 2, 4, 0, 4}, middle{1, 0, 3, 0, 3, 4, 1, 4};
  const Rle both = polygons_mask({left, middle, {4, 1, 5, 1, 5, 2, 4, 2}}, {4, 5});
  EXPECT_EQ(both.counts, (std::vector<std::uint32_t>{0, 12, 5, 1, 2}));
}

TEST(SegmentationMask, TakesPolygonsOrRuns) {
  const Segmentation polygon{.polygons = {{1, 1, 4, 1, 4, 3, 1, 3}}, .rle = {}};
  const Rle drawn = segmentation_mask(polygon, {4, 5});
  EXPECT_EQ(segmentation_mask({{}, drawn}, {4, 5}), drawn);
  EXPECT_EQ(segmentation_mask({}, {4, 5}).counts, std::vector<std::uint32_t>{20});
  EXPECT_NE(error_of([&] {
              segmentation_mask({{}, drawn}, {5, 4});
            }).find("4 x 5"),
            std::string::npos);
  EXPECT_NE(error_of([&] {
              segmentation_mask({{}, {{4, 5}, {19}}}, {4, 5});
            }).find("sum"),
            std::string::npos);
}

bool is_rle_case(const Json& description) {
  return description["files"].contains("rle.json");
}

TEST(PolygonMaskParity, EqualsPycocotools) {
  const auto cases = test::parity_cases(is_rle_case);
  ASSERT_FALSE(cases.empty());
  for (const test::ParityCase& folder : cases) {
    SCOPED_TRACE(folder.folder);
    const Json json = Json::parse(files::read(folder.folder / "rle.json"));
    const ImageSize size{json["height"], json["width"]};
    for (const Json& object : json["polygons"]) {
      const auto parts = object["polygons"].get<std::vector<Polygon>>();
      Json each = Json::array();
      for (const Polygon& part : parts) {
        each.push_back(text_of(polygon_mask(part, size)));
      }
      EXPECT_EQ(each.dump(), object["each"].is_array() ? object["each"].dump()
                                                       : Json::array({object["each"]}).dump());
      const Rle merged = polygons_mask(parts, size);
      EXPECT_EQ(text_of(merged), object["merged"]);
      EXPECT_EQ(rle_area(merged.counts), object["area"].get<std::int64_t>());
    }
    for (std::size_t i = 0; i < json["boxes_xywh"].size(); ++i) {  // boxes are drawn as rectangles
      const auto box = json["boxes_xywh"][i].get<std::vector<double>>();
      const double x2 = box[0] + box[2], y2 = box[1] + box[3];
      const Polygon corners{box[0], box[1], box[0], y2, x2, y2, x2, box[1]};
      EXPECT_EQ(text_of(polygon_mask(corners, size)), json["boxes_counts"][i]);
    }
  }
}

// Polygons run along pixel edges; drawn, each is exactly the RLE of the same annotation.
TEST(PolygonMaskParity, NucleiPolygonsDrawTheirRle) {
  DETFORGE_REQUIRE_TEST_DATA("nuclei");
  const auto folder = test::test_data_dir() / "nuclei/annotations";
  const Json polygons = Json::parse(files::read(folder / "val_polygon.json"))["annotations"];
  const Json runs = Json::parse(files::read(folder / "val.json"))["annotations"];
  ASSERT_EQ(polygons.size(), runs.size());
  for (std::size_t i = 0; i < runs.size(); ++i) {
    ASSERT_EQ(polygons[i]["id"], runs[i]["id"]);
    const Json& rle = runs[i]["segmentation"];
    const Rle drawn = polygons_mask(polygons[i]["segmentation"].get<std::vector<Polygon>>(),
                                    {rle["size"][0], rle["size"][1]});
    ASSERT_EQ(text_of(drawn), rle["counts"]) << "annotation " << runs[i]["id"];
  }
}

// Official annotations: polygons of several parts, and crowds as lists of runs.
TEST(PolygonMaskParity, CocoAnnotationsDrawWhatPycocotoolsDraws) {
  DETFORGE_REQUIRE_TEST_DATA("cocoeval");
  const auto data = test::test_data_dir();
  const Json masks = Json::parse(files::read(data / "cocoeval/coco_sample_val/masks.json"));
  const Json set = Json::parse(files::read(data / masks["gt"].get<std::string>()));
  std::map<std::int64_t, Json> annotations;
  for (const Json& annotation : set["annotations"]) {
    annotations[annotation["id"]] = annotation["segmentation"];
  }
  ASSERT_FALSE(masks["masks"].empty());
  for (const Json& expected : masks["masks"]) {
    const ImageSize size{expected["size"][0], expected["size"][1]};
    const Json& given = annotations.at(expected["id"]);
    Segmentation segmentation;
    if (given.is_array()) {
      segmentation.polygons = given.get<std::vector<Polygon>>();
    } else {
      segmentation.rle = {size, given["counts"].get<std::vector<std::uint32_t>>()};
    }
    const Rle rle = segmentation_mask(segmentation, size);
    ASSERT_EQ(text_of(rle), expected["counts"]) << "annotation " << expected["id"];
    EXPECT_EQ(rle_area(rle.counts), expected["area"].get<std::int64_t>());
    const Box box = rle_box(rle.counts, size.height);
    EXPECT_EQ((std::vector<double>{box.x1, box.y1, box.width(), box.height()}),
              expected["bbox"].get<std::vector<double>>());
  }
}

}  // namespace
}  // namespace detforge
