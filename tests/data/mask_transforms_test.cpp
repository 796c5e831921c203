// Masks under resize, flip, crop and pad, and polygons under a crop, against bitmaps.
#include "detforge/data/mask_transforms.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "data/coco_files.h"
#include "detforge/data/polygon_clip.h"
#include "detforge/data/resize.h"
#include "detforge/structures/polygon_raster.h"
#include "detforge/structures/rle.h"
#include "structures/naive_masks.h"
#include "support/npz.h"
#include "support/test_data.h"

namespace detforge {
namespace {

using test::Bitmap;
using test::error_of;
constexpr int kRandomMasks = 200;

Rng test_rng(std::uint64_t stream) {
  return {29, RngPurpose::kTest, stream};
}

Bitmap resized(const Bitmap& bitmap, ImageSize size) {
  const LabelMap out = resize_nearest({bitmap.size.height, bitmap.size.width, bitmap.pixels}, size);
  Bitmap result(size);
  result.pixels = out.values;
  return result;
}

// 3 x 4, columns 000 011 110 000; mirrored: 000 110 011 000.
TEST(MaskTransforms, HandMadeMaskIsMirroredCutAndPadded) {
  const Rle mask{{3, 4}, {4, 4, 4}};
  EXPECT_EQ(flip_mask_horizontal(mask).counts, (std::vector<std::uint32_t>{3, 2, 2, 2, 3}));
  EXPECT_EQ(flip_mask_vertical(mask).counts, (std::vector<std::uint32_t>{3, 2, 2, 2, 3}));
  EXPECT_EQ(window_mask(mask, 1, 1, {2, 2}), (Rle{{2, 2}, {0, 3, 1}}));   // 11 10
  EXPECT_EQ(window_mask(mask, -1, 0, {4, 3}), (Rle{{4, 3}, {9, 2, 1}}));  // column 2: 0110
  EXPECT_EQ(window_mask(mask, 9, 0, {2, 2}), (Rle{{2, 2}, {4}}));
}

TEST(MaskTransforms, EqualBitmapsUnderRandomChanges) {
  Rng rng = test_rng(1);
  for (int i = 0; i < kRandomMasks; ++i) {
    SCOPED_TRACE(i);
    Bitmap bitmap = test::random_bitmap(rng);
    const auto [height, width] = bitmap.size;
    const Rle mask = encode_mask(bitmap.pixels, bitmap.size);
    const ImageSize size{static_cast<std::int64_t>(1 + rng.below(120)),
                         static_cast<std::int64_t>(1 + rng.below(120))};
    ASSERT_EQ(resize_mask(mask, size), test::naive_runs(resized(bitmap, size)));
    Bitmap mirrored(bitmap.size), upside_down(bitmap.size), window(size);
    const std::int64_t left = static_cast<std::int64_t>(rng.below(100)) - 50,
                       top = static_cast<std::int64_t>(rng.below(100)) - 50;
    for (std::int64_t y = 0; y < height; ++y) {
      for (std::int64_t x = 0; x < width; ++x) {
        mirrored.at(y, width - 1 - x) = upside_down.at(height - 1 - y, x) = bitmap.at(y, x);
        if (x >= left && x < left + size.width && y >= top && y < top + size.height) {
          window.at(y - top, x - left) = bitmap.at(y, x);
        }
      }
    }
    ASSERT_EQ(flip_mask_horizontal(mask), test::naive_runs(mirrored));
    ASSERT_EQ(flip_mask_vertical(mask), test::naive_runs(upside_down));
    ASSERT_EQ(window_mask(mask, left, top, size), test::naive_runs(window));
    ASSERT_EQ(flip_mask_horizontal(flip_mask_horizontal(mask)), mask);
    ASSERT_EQ(flip_mask_vertical(flip_mask_vertical(mask)), mask);
  }
}

TEST(MaskTransforms, SubtractLeavesWhatIsNotCovered) {
  Rng rng = test_rng(2);
  for (int i = 0; i < kRandomMasks; ++i) {
    const Bitmap a = test::random_bitmap(rng);
    Bitmap b(a.size), expected(a.size);
    for (std::size_t p = 0; p < a.pixels.size(); ++p) {
      b.pixels[p] = static_cast<std::uint8_t>(rng.below(2));
      expected.pixels[p] = a.pixels[p] != 0 && b.pixels[p] == 0;
    }
    ASSERT_EQ(subtract_mask(encode_mask(a.pixels, a.size), encode_mask(b.pixels, b.size)),
              test::naive_runs(expected));
  }
}

TEST(MaskTransforms, RefuseBrokenMasksAndSizes) {
  const Rle broken{{3, 4}, {4, 4, 5}}, mask{{3, 4}, {4, 4, 4}};
  EXPECT_NE(error_of([&] { resize_mask(broken, {6, 8}); }).find("sum to 13"), std::string::npos);
  EXPECT_NE(error_of([&] { flip_mask_horizontal(broken); }), "");
  EXPECT_NE(error_of([&] { flip_mask_vertical(broken); }), "");
  EXPECT_NE(error_of([&] { window_mask(broken, 0, 0, {1, 1}); }), "");
  EXPECT_NE(error_of([&] { subtract_mask(broken, mask); }), "");
  EXPECT_NE(error_of([&] { resize_mask(mask, {0, 8}); }), "");
  EXPECT_NE(error_of([&] { window_mask(mask, 0, 0, {-1, 8}); }), "");
}

bool is_resize_case(const nlohmann::json& description) {
  return description.contains("files") && description["files"].contains("resize.npz");
}

// Each label of Pillow's resized label maps, as a mask of its own.
TEST(MaskTransformsParity, ResizeEqualsPillowNearest) {
  const auto cases = test::parity_cases(is_resize_case);
  ASSERT_FALSE(cases.empty());
  for (const auto& parity : cases) {
    const auto arrays = test::read_npz(parity.folder / "resize.npz");
    std::size_t compared = 0;
    for (int i = 0; arrays.contains(fmt::format("r{}/seg_in", i)); ++i) {
      const auto &in = arrays.at(fmt::format("r{}/seg_in", i)),
                 &out = arrays.at(fmt::format("r{}/seg_out", i));
      for (const char label : std::set<char>(in.bytes.begin(), in.bytes.end())) {
        const auto mask_of = [label](const test::NpyArray& map) {
          std::vector<std::uint8_t> bitmap;
          for (const char value : map.bytes) {
            bitmap.push_back(value == label);
          }
          return encode_mask(bitmap, {map.shape[0], map.shape[1]});
        };
        ASSERT_EQ(resize_mask(mask_of(in), {out.shape[0], out.shape[1]}), mask_of(out)) << i;
        ++compared;
      }
    }
    EXPECT_GT(compared, 0U);
  }
}

// --- polygons

using Polygon = std::vector<double>;

TEST(ClipPolygon, HandMadeTriangleLosesItsTip) {
  // The right angle at (0, 0), legs of 4; the window ends at x = 2.
  EXPECT_EQ(clip_polygon({0, 0, 4, 0, 0, 4}, {-9, -9, 2, 9}), (Polygon{0, 0, 2, 0, 2, 2, 0, 4}));
  EXPECT_EQ(clip_polygon({0, 0, 4, 0, 0, 4}, {0, 0, 4, 4}), (Polygon{0, 0, 4, 0, 0, 4}));
  EXPECT_EQ(clip_polygon({0, 0, 4, 0, 0, 4}, {3, 3, 9, 9}), Polygon{});
  EXPECT_EQ(clip_polygon({0, 0, 4, 0, 0, 4}, {4, 0, 9, 9}), Polygon{});  // touches in a point
}

// Whole coordinates, so that clipping adds no rounding: the pixels inside the window stay the same.
TEST(ClipPolygonProperty, KeepsThePixelsInsideTheWindow) {
  Rng rng = test_rng(3);
  for (int i = 0; i < 500; ++i) {
    Polygon xy;
    for (int k = 0; k < 10; ++k) {  // a staircase along pixel edges
      const auto at = static_cast<double>(rng.below(60));
      xy.insert(xy.end(),
                {k % 2 == 0 || xy.empty() ? at : xy[xy.size() - 2], k % 2 == 1   ? at
                                                                    : xy.empty() ? 0
                                                                                 : xy.back()});
    }
    xy.insert(xy.end(), {xy[0], xy.back()});
    const Polygon clipped = clip_polygon(xy, {10, 15, 50, 45});
    const ImageSize size{60, 60};
    const Rle window = polygon_mask(Polygon{10, 15, 50, 15, 50, 45, 10, 45}, size);
    const Rle whole = polygon_mask(xy, size);
    ASSERT_EQ(polygon_mask(clipped, size), merge_masks(std::vector<RleView>{whole, window}, true))
        << nlohmann::json(xy);
  }
}

TEST(VisibleBox, IsTightAroundWhatIsShown) {
  // Detectron2's example: the triangle (0,0) (2,0) (0,2), cropped to x from 1 to 2, y from 0 to 2.
  EXPECT_EQ(visible_box({{-1, 0, 1, 0, -1, 2}}, {2, 1}), (Box{0, 0, 1, 1}));
  EXPECT_EQ(visible_box({{1, 1, 3, 1, 3, 2}, {5, 6, 7, 6, 7, 8}}, {9, 9}), (Box{1, 1, 7, 8}));
  EXPECT_EQ(visible_box({{-5, -5, 20, -5, 20, 20, -5, 20}}, {9, 7}), (Box{0, 0, 7, 9}));
  EXPECT_EQ(visible_box({{-5, 1, 0, 1, 0, 4, -5, 4}}, {9, 9}), Box{});  // along the border, outside
  EXPECT_EQ(visible_box({}, {9, 9}), Box{});
}

// A C around the image: both ends reach in at the left, the bow passes outside.
TEST(VisibleBox, BorderEdgesOfAClippedPolygonDoNotWidenIt) {
  const Polygon c{2, 3, -3, 3, -3, -3, 14, -3, 14, 14, -3, 14, -3, 8, 2, 8,
                  2, 7, -4, 7, -4, 15, 15, 15, 15, -4, -4, -4, -4, 4, 2, 4};
  const Box expected{0, 3, 2, 8};
  EXPECT_EQ(visible_box({c}, {10, 10}), expected);
  const Polygon clipped = clip_polygon(c, {0, 0, 10, 10});
  EXPECT_EQ(polygon_box(clipped), (Box{0, 0, 10, 10}));  // its edges follow the whole border
  EXPECT_EQ(visible_box({clipped}, {10, 10}), expected);
}

// Staircases along pixel edges, no two on one line: the box of what is shown is that of the pixels.
TEST(VisibleBoxProperty, EqualsTheBoxOfThePixels) {
  Rng rng = test_rng(4);
  for (int i = 0; i < 500; ++i) {
    const std::vector<std::int64_t> xs = rng.permutation(60), ys = rng.permutation(60);
    Polygon xy;
    for (std::size_t k = 0; k < 7; ++k) {
      const auto x = static_cast<double>(xs[k] - 20), y = static_cast<double>(ys[k] - 20);
      xy.insert(xy.end(), {x, y, x, static_cast<double>(ys[(k + 1) % 7] - 20)});
    }
    const Rle mask = polygon_mask(xy, {20, 20});
    ASSERT_EQ(visible_box({xy}, {20, 20}), rle_box(mask.counts, 20)) << nlohmann::json(xy);
  }
}

}  // namespace
}  // namespace detforge
