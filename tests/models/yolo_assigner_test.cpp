#include <cmath>

#include <gtest/gtest.h>
#include <torch/types.h>

#include "detforge/core/error.h"
#include "detforge/models/yolo/darknet_assigner.h"
#include "detforge/models/yolo/grid_assigner.h"
#include "support/torch/naive_yolo.h"
#include "support/torch/random_boxes.h"

namespace detforge {
namespace {

// One scale of 2x2 cells of 16 pixels with anchors 16x16 and 8x8.
const std::vector<YoloScale> kTwoAnchors{{.stride = 16, .anchors = {{16, 16}, {8, 8}}}};
const std::vector<ImageSize> kFourCells{{2, 2}};

std::vector<ImageSize> grids_of(std::int64_t height, std::int64_t width) {
  std::vector<ImageSize> grids;
  for (const YoloScale& scale : yolov3_scales()) {
    grids.push_back({height / scale.stride, width / scale.stride});
  }
  return grids;
}

// Objects of every kind: many sizes, nested, equal, without area, at borders, larger than the
// image.
Tensor awkward_boxes() {
  return torch::tensor({{0.0F, 0.0F, 192.0F, 128.0F},
                        {0.0F, 0.0F, 192.0F, 128.0F},
                        {-40.0F, -30.0F, 230.0F, 160.0F},
                        {96.0F, 64.0F, 96.0F, 70.0F},
                        {100.0F, 60.0F, 90.0F, 50.0F},
                        {64.0F, 32.0F, 74.0F, 45.0F},
                        {65.0F, 33.0F, 75.0F, 46.0F},
                        {191.0F, 127.0F, 192.0F, 128.0F},
                        {0.0F, 0.0F, 1.0F, 128.0F},
                        {31.5F, 31.5F, 32.5F, 32.5F}});
}

TEST(GridAssigner, ByHand) {
  // Object (1,1)-(15,15): IoU with the 16x16 anchor of cell 0 is 196/256 = 0.766, with the 8x8 one
  // 64/196 = 0.327. It touches no other anchor of IoU > 0.5.
  // Object (18,4)-(26,12), centre (22,8) in cell 1: with the 8x8 anchor (20,4)-(28,12) it shares
  // 6*8 = 48 of 80: 0.6; with the 16x16 one 64 of 256: 0.25. Both are its own.
  const Tensor gt = torch::tensor({{1.0F, 1.0F, 15.0F, 15.0F}, {18.0F, 4.0F, 26.0F, 12.0F}});
  const YoloAssignment assignment = assign_on_grid(kTwoAnchors, kFourCells, gt, {});
  EXPECT_EQ(assignment.gt_of_anchor, (std::vector<std::int64_t>{1, 0, 0, 2, 0, 0, 0, 0}));
}

TEST(GridAssigner, AnchorThatIsCloseButNotResponsibleIsIgnored) {
  // Object (4,0)-(20,16), centre (12, 8) in cell 0: IoU with the 16x16 anchors of cell 0 and 1 is
  // 192/320 = 0.6 and 64/448 = 0.14, with the 8x8 anchor of cell 0 64/256 = 0.25.
  GridAssignOptions options;
  options.negative_iou = 0.1;
  const Tensor gt = torch::tensor({{4.0F, 0.0F, 20.0F, 16.0F}});
  const YoloAssignment assignment = assign_on_grid(kTwoAnchors, kFourCells, gt, options);
  EXPECT_EQ(assignment.gt_of_anchor, (std::vector<std::int64_t>{1, -1, -1, 0, 0, 0, 0, 0}));
}

TEST(GridAssigner, LaterObjectTakesTheAnchor) {
  const Tensor gt = torch::tensor({{0.0F, 0.0F, 16.0F, 16.0F}, {1.0F, 1.0F, 15.0F, 15.0F}});
  const YoloAssignment assignment = assign_on_grid(kTwoAnchors, kFourCells, gt, {});
  EXPECT_EQ(assignment.gt_of_anchor[0], 2);
}

TEST(GridAssigner, EqualsLoopsOverEverything) {
  const auto scales = yolov3_scales();
  const auto grids = grids_of(128, 192);
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const Tensor gt = test::random_boxes(1 + static_cast<std::int64_t>(seed), 128, seed);
    for (const double iou : {0.5, 0.3, 0.0, 0.8}) {
      const GridAssignOptions options{.positive_iou = iou, .negative_iou = iou};
      EXPECT_EQ(assign_on_grid(scales, grids, gt, options).gt_of_anchor,
                test::naive_grid_assign(scales, grids, gt, options))
          << "seed " << seed << " IoU " << iou;
    }
  }
  EXPECT_EQ(assign_on_grid(scales, grids, awkward_boxes(), {}).gt_of_anchor,
            test::naive_grid_assign(scales, grids, awkward_boxes(), {}));
}

TEST(GridAssigner, NoObjectMakesAllNegative) {
  const auto assignment = assign_on_grid(kTwoAnchors, kFourCells, torch::zeros({0, 4}), {});
  EXPECT_EQ(assignment.gt_of_anchor, std::vector<std::int64_t>(8, 0));
}

TEST(GridAssigner, CentreOutsideTheGridCountsForTheNearestCell) {
  const Tensor gt = torch::tensor({{28.0F, 28.0F, 40.0F, 40.0F}});  // centre (34, 34)
  EXPECT_EQ(assign_on_grid(kTwoAnchors, kFourCells, gt, {}).gt_of_anchor[6], 1);
}

TEST(GridAssigner, RefusesThresholdsAndShapesThatCannotBe) {
  EXPECT_THROW(assign_on_grid(kTwoAnchors, kFourCells, torch::zeros({1, 4}), {.positive_iou = 1.5}),
               Error);
  EXPECT_THROW(assign_on_grid(kTwoAnchors, kFourCells, torch::zeros({4}), {}), Error);
  EXPECT_THROW(assign_on_grid(kTwoAnchors, {}, torch::zeros({1, 4}), {}), Error);
}

TEST(DarknetAssigner, ByHand) {
  // A 10x10 object has shape IoU 100/256 = 0.39 with 16x16 and 64/100 with 8x8: it takes the 8x8
  // anchor of its cell 3 (centre (20, 20)). One prediction has an IoU of 0.9 with it.
  Tensor predicted = torch::zeros({8, 4});
  predicted[0] = torch::tensor({15.0F, 15.0F, 25.0F, 24.0F});
  const Tensor gt = torch::tensor({{15.0F, 15.0F, 25.0F, 25.0F}});
  const auto assignment = assign_as_darknet(kTwoAnchors, kFourCells, predicted, gt, {});
  EXPECT_EQ(assignment.gt_of_anchor, (std::vector<std::int64_t>{-1, 0, 0, 0, 0, 0, 0, 1}));
  EXPECT_TRUE(assignment.further_classes.empty());
}

TEST(DarknetAssigner, ObjectsThatShareAnAnchorKeepTheirClasses) {
  const Tensor gt = torch::tensor({{4.0F, 4.0F, 12.0F, 12.0F}, {5.0F, 5.0F, 13.0F, 13.0F}});
  const auto assignment = assign_as_darknet(kTwoAnchors, kFourCells, torch::zeros({8, 4}), gt, {});
  EXPECT_EQ(assignment.gt_of_anchor[1], 2);
  ASSERT_EQ(assignment.further_classes.size(), 1U);
  EXPECT_EQ(assignment.further_classes[0].anchor, 1);
  EXPECT_EQ(assignment.further_classes[0].gt, 0);
}

TEST(DarknetAssigner, EqualsLoopsOverEverything) {
  const auto scales = yolov3_scales();
  const auto grids = grids_of(96, 128);
  const auto anchors = test::naive_anchors(scales, grids);
  Tensor on_anchors = torch::empty({static_cast<std::int64_t>(anchors.size()), 4});
  for (std::size_t i = 0; i < anchors.size(); ++i) {
    std::copy(anchors[i].begin(), anchors[i].end(), on_anchors.data_ptr<float>() + 4 * i);
  }
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const Tensor gt = test::random_boxes(static_cast<std::int64_t>(seed), 96, seed);
    const Tensor predicted = on_anchors + test::random_tensor({on_anchors.size(0), 4}, seed) * 8;
    for (const double iou : {0.7, 0.3}) {
      const auto actual = assign_as_darknet(scales, grids, predicted, gt, {.ignore_iou = iou});
      const auto expected = test::naive_darknet_assign(scales, grids, predicted, gt, iou);
      EXPECT_EQ(actual.gt_of_anchor, expected.roles) << "seed " << seed;
    }
  }
}

TEST(DarknetAssigner, PredictionThatIsNotFiniteIsNegative) {
  Tensor predicted = torch::full({8, 4}, INFINITY);
  predicted[1].fill_(NAN);
  const Tensor gt = torch::tensor({{4.0F, 4.0F, 12.0F, 12.0F}});
  const auto assignment = assign_as_darknet(kTwoAnchors, kFourCells, predicted, gt, {});
  EXPECT_EQ(assignment.gt_of_anchor, (std::vector<std::int64_t>{0, 1, 0, 0, 0, 0, 0, 0}));
}

}  // namespace
}  // namespace detforge
