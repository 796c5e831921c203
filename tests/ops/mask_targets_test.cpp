#include "detforge/ops/mask_targets.h"

#include <cmath>
#include <limits>

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "detforge/core/error.h"
#include "detforge/core/rng.h"
#include "detforge/structures/polygon_raster.h"
#include "detforge/structures/rle.h"
#include "support/npz.h"
#include "support/test_data.h"
#include "support/torch/naive_ops.h"
#include "support/torch/random_boxes.h"
#include "support/torch/tensors.h"

namespace detforge {
namespace {

using test::expect_close;

Segmentation polygon(std::vector<double> xy) {
  return {.polygons = {std::move(xy)}, .rle = {}};
}

/// A wobbly star of 12 points.
std::vector<double> random_star(Rng& rng, double extent) {
  const double x = rng.uniform(0.2, 0.8) * extent, y = rng.uniform(0.2, 0.8) * extent;
  std::vector<double> xy;
  for (int i = 0; i < 12; ++i) {
    const double radius = rng.uniform(0.1, 0.45) * extent;
    xy.push_back(x + radius * std::cos(0.5236 * i));
    xy.push_back(y + radius * std::sin(0.5236 * i));
  }
  return xy;
}

Tensor to_bitmap(const Rle& rle) {
  Tensor bitmap = torch::zeros({rle.size.height, rle.size.width}, torch::kByte);
  decode_mask(rle, {bitmap.data_ptr<std::uint8_t>(), static_cast<std::size_t>(bitmap.numel())});
  return bitmap;
}

Rle to_rle(const Tensor& bitmap) {
  const Tensor bytes = bitmap.to(torch::kByte).contiguous();
  return encode_mask({bytes.data_ptr<std::uint8_t>(), static_cast<std::size_t>(bytes.numel())},
                     {bytes.size(0), bytes.size(1)});
}

TEST(MaskTargets, PolygonByHand) {
  // The left half of the box (10,20)-(14,24), on a grid of 2 x 2 cells of 2 pixels; and a triangle
  // over the whole box: cell centres (0.5, 0.5), (1.5, 0.5), (0.5, 1.5) are above its diagonal or
  // on it.
  const std::vector<Segmentation> masks{polygon({10, 20, 12, 20, 12, 24, 10, 24}),
                                        polygon({10, 20, 14, 20, 14, 24, 10, 24})};
  const Tensor boxes = torch::tensor(
      {{10.0F, 20.0F, 14.0F, 24.0F}, {10.0F, 20.0F, 14.0F, 24.0F}, {12.0F, 18.0F, 16.0F, 22.0F}});
  const Tensor targets = mask_targets(masks, boxes, torch::tensor({0, 1, 1}), 2);
  const Tensor expected = torch::tensor(
      {{{1.0F, 0.0F}, {1.0F, 0.0F}}, {{1.0F, 1.0F}, {1.0F, 1.0F}}, {{0.0F, 0.0F}, {1.0F, 0.0F}}});
  EXPECT_TRUE(expect_close(targets, expected, {}));
}

TEST(MaskTargets, RleByHand) {
  // A bitmap of 4 x 4 pixels, columns 0 and 1 set. Cells of 1 pixel give the bitmap itself; in the
  // box shifted by half a pixel each cell averages two pixels: exactly 0.5 between columns 1 and 2
  // counts as object.
  const std::vector<Segmentation> masks{{.polygons = {}, .rle = {{4, 4}, {0, 8, 8}}}};
  const Tensor boxes =
      torch::tensor({{0.0F, 0.0F, 4.0F, 4.0F}, {0.5F, 0.0F, 3.5F, 3.0F}, {2.0F, 0.0F, 4.0F, 2.0F}});
  EXPECT_TRUE(expect_close(mask_targets(masks, boxes.slice(0, 0, 1), torch::tensor({0}), 4)[0],
                           to_bitmap(masks[0].rle), {}));
  EXPECT_TRUE(expect_close(mask_targets(masks, boxes.slice(0, 1, 2), torch::tensor({0}), 3)[0][1],
                           torch::tensor({1.0F, 1.0F, 0.0F}), {}));
  EXPECT_EQ(mask_targets(masks, boxes.slice(0, 2), torch::tensor({0}), 2).sum().item<float>(), 0);
}

TEST(MaskTargets, PolygonsEqualPointInPolygonAwayFromTheOutline) {
  constexpr std::int64_t kSide = 28;
  Rng rng(3, RngPurpose::kTest);
  const Tensor boxes = test::random_boxes(30, 200, 5);
  std::int64_t judged = 0;
  for (std::int64_t r = 0; r < boxes.size(0); ++r) {
    const std::vector<double> xy = random_star(rng, 200);
    const Tensor target =
        mask_targets({polygon(xy)}, boxes.slice(0, r, r + 1), torch::tensor({0}), kSide)[0];
    const float* box = boxes.data_ptr<float>() + r * 4;
    const double cell_x = (box[2] - box[0]) / kSide, cell_y = (box[3] - box[1]) / kSide;
    for (std::int64_t i = 0; i < kSide * kSide; ++i) {
      const double x = box[0] + (static_cast<double>(i % kSide) + 0.5) * cell_x;
      const double y = box[1] + (static_cast<double>(i / kSide) + 0.5) * cell_y;
      bool inside = false, near = false;
      for (std::size_t a = 0, b = xy.size() - 2; a < xy.size(); b = a, a += 2) {
        const double ax = (xy[a] - x) / cell_x, ay = (xy[a + 1] - y) / cell_y;
        const double bx = (xy[b] - x) / cell_x, by = (xy[b + 1] - y) / cell_y;
        const double t = std::clamp(
            -(ax * (bx - ax) + ay * (by - ay)) / ((bx - ax) * (bx - ax) + (by - ay) * (by - ay)),
            0.0, 1.0);
        near = near || std::hypot(ax + t * (bx - ax), ay + t * (by - ay)) < 0.75;
        if ((ay > 0) != (by > 0) && ax + (bx - ax) * ay / (ay - by) > 0) {
          inside = !inside;
        }
      }
      judged += near ? 0 : 1;
      ASSERT_TRUE(near || (target.flatten()[i].item<float>() > 0) == inside) << r << " " << i;
    }
  }
  EXPECT_GT(judged, 15000);
}

TEST(MaskTargets, RleEqualsNaiveRoiAlign) {
  Rng rng(4, RngPurpose::kTest);
  const ImageSize size{150, 130};
  Tensor boxes = test::random_boxes(60, 130, 6);
  boxes.slice(0, 0, 8) += 40;   // reach beyond the image
  boxes.slice(0, 8, 12) -= 60;  // on the other side
  boxes.slice(0, 12, 16) = boxes.slice(0, 12, 16) * 0.01 + 50;
  boxes[16].copy_(torch::tensor({-900.0F, -700.0F, 1000.0F, 900.0F}));
  boxes[17].copy_(torch::tensor({500.0F, 500.0F, 600.0F, 600.0F}));
  std::int64_t set = 0;
  for (std::int64_t r = 0; r < boxes.size(0); ++r) {
    const Rle rle = polygon_mask(random_star(rng, 130), size);
    const Tensor box = boxes.slice(0, r, r + 1);
    const Tensor target = mask_targets({{.polygons = {}, .rle = rle}}, box, torch::tensor({0}), 14);
    const Tensor rois = torch::cat({torch::zeros({1, 1}), box}, 1);
    const Tensor average =
        test::naive_roi_align(to_bitmap(rle).to(torch::kFloat).view({1, 1, 150, 130}), rois,
                              {.output_size = {14, 14}, .sampling_ratio = 0})[0];
    const Tensor clear = (average - 0.5).abs() > 1e-5;
    EXPECT_EQ(target.ne(average >= 0.5).logical_and(clear).sum().item<int>(), 0) << r;
    set += target.sum().item<int>();
  }
  EXPECT_GT(set, 2000);
}

TEST(MaskTargets, EmptyMasksBoxesAndListsAreDefined) {
  const Tensor none = torch::zeros({0}, torch::kLong);
  EXPECT_EQ(mask_targets({}, torch::zeros({0, 4}), none, 28).sizes(),
            (std::vector<std::int64_t>{0, 28, 28}));
  const Tensor box = torch::tensor({{1.0F, 1.0F, 5.0F, 5.0F}});
  EXPECT_EQ(mask_targets({Segmentation{}}, box, torch::tensor({0}), 7).sum().item<float>(), 0);
  // A box without area reads nothing from an RLE, and polygons at a tenth of a pixel.
  const Tensor flat = torch::tensor({{2.0F, 2.0F, 2.0F, 2.0F}});
  EXPECT_EQ(mask_targets({{.polygons = {}, .rle = {{4, 4}, {0, 16}}}}, flat, torch::tensor({0}), 7)
                .sum()
                .item<float>(),
            0);
  EXPECT_EQ(mask_targets({polygon({0, 0, 4, 0, 4, 4, 0, 4})}, flat, torch::tensor({0}), 7)
                .sum()
                .item<float>(),
            49);
}

TEST(MaskTargets, RefusesWhatDoesNotFit) {
  const std::vector<Segmentation> masks{polygon({0, 0, 4, 0, 4, 4})};
  const Tensor box = torch::tensor({{1.0F, 1.0F, 5.0F, 5.0F}});
  EXPECT_THROW(mask_targets(masks, box, torch::tensor({1}), 7), Error);
  EXPECT_THROW(mask_targets(masks, box, torch::tensor({-1}), 7), Error);
  EXPECT_THROW(mask_targets(masks, box, torch::tensor({0, 0}), 7), Error);
  EXPECT_THROW(mask_targets(masks, box * NAN, torch::tensor({0}), 7), Error);
  EXPECT_THROW(
      mask_targets({{.polygons = {}, .rle = {{4, 4}, {0, 17}}}}, box, torch::tensor({0}), 7),
      Error);
}

TEST(MaskTargetsProperty, SameForAnyNumberOfThreads) {
  Rng rng(5, RngPurpose::kTest);
  std::vector<Segmentation> masks;
  for (int i = 0; i < 20; ++i) {
    masks.push_back(polygon(random_star(rng, 300)));
    masks.push_back({.polygons = {}, .rle = polygon_mask(random_star(rng, 300), {300, 300})});
  }
  const Tensor boxes = test::random_boxes(40, 300, 4);
  const int threads = at::get_num_threads();
  std::vector<Tensor> targets;
  for (const int count : {1, 4}) {
    at::set_num_threads(count);
    targets.push_back(mask_targets(masks, boxes, torch::arange(40), 28));
  }
  at::set_num_threads(threads);
  EXPECT_TRUE(targets[0].equal(targets[1]));
}

bool is_mask_target_case(const nlohmann::json& description) {
  return description.contains("files") && description["files"].contains("mask_targets.npz");
}

TEST(MaskTargetsParity, BitEqualToDetectron2) {
  const auto cases = test::parity_cases(is_mask_target_case);
  ASSERT_FALSE(cases.empty());
  for (const test::ParityCase& parity_case : cases) {
    SCOPED_TRACE(parity_case.folder.string());
    const test::Npz arrays = test::read_npz(parity_case.folder / "mask_targets.npz");
    const auto array = [&](const std::string& name) { return test::to_tensor(arrays.at(name)); };
    std::vector<Segmentation> polygons, bitmaps;
    for (int k = 0; arrays.count(fmt::format("poly{}_0", k)) == 1; ++k) {
      polygons.emplace_back();
      for (int j = 0; arrays.count(fmt::format("poly{}_{}", k, j)) == 1; ++j) {
        polygons.back().polygons.push_back(arrays.at(fmt::format("poly{}_{}", k, j)).to_double());
      }
      bitmaps.push_back({.polygons = {}, .rle = to_rle(array("bitmasks")[k])});
    }
    const Tensor boxes = array("boxes"), all = torch::arange(boxes.size(0));
    const auto expect_equal = [&](const Tensor& actual, const std::string& name) {
      const Tensor expected = array(name).to(torch::kFloat);
      EXPECT_GT(expected.sum().item<float>(), 0);
      EXPECT_TRUE(expect_close(actual, expected, {})) << name;
    };
    expect_equal(mask_targets(polygons, boxes, all, 28), "targets28");
    expect_equal(mask_targets(polygons, boxes, all, 14), "targets14");
    expect_equal(mask_targets(polygons, boxes, all, 28), "crop_and_resize28");
    const Tensor index = array("bitmask_crop_index");
    expect_equal(mask_targets(bitmaps, boxes.index_select(0, index), index, 28), "bitmask_crop28");
  }
}

}  // namespace
}  // namespace detforge
