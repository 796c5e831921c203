#include "detforge/models/yolo/yolo_output.h"

#include <cmath>

#include <gtest/gtest.h>
#include <torch/types.h>

#include "detforge/core/error.h"
#include "support/torch/random_boxes.h"
#include "support/torch/tensors.h"

namespace detforge {
namespace {

using test::expect_close;

// Two cells of 16 pixels, one anchor 8x8, two classes.
const YoloLayout kLayout{.scales = {{.stride = 16, .anchors = {{8, 8}}}}, .num_classes = 2};

double logit(double p) {
  return std::log(p / (1 - p));
}

// A map in which cell c predicts its anchor with the given conf and class probabilities.
Tensor map_of(const std::vector<std::array<double, 3>>& cells) {
  Tensor map = torch::zeros({1, 7, 1, static_cast<std::int64_t>(cells.size())});
  for (std::size_t c = 0; c < cells.size(); ++c) {
    for (std::int64_t i = 0; i < 3; ++i) {
      map[0][4 + i][0][static_cast<std::int64_t>(c)] = logit(cells[c][static_cast<std::size_t>(i)]);
    }
  }
  return map;
}

TEST(YoloOutput, ByHand) {
  // Cell 0: both classes above 0.05, scores 0.5 * 0.8 and 0.5 * 0.1. Cell 1: class 1 alone, 0.9 *
  // 0.7. Anchors lie at (4,4)-(12,12) and (20,4)-(28,12).
  const auto found = yolo_detections({map_of({{0.5, 0.8, 0.1}, {0.9, 0.01, 0.7}})}, kLayout, {})[0];
  EXPECT_TRUE(expect_close(found.scores, torch::tensor({0.63F, 0.4F, 0.05F}), {.atol = 1e-6}));
  EXPECT_TRUE(found.labels.equal(torch::tensor({1, 0, 1}, torch::kLong)));
  EXPECT_TRUE(expect_close(
      found.boxes,
      torch::tensor(
          {{20.0F, 4.0F, 28.0F, 12.0F}, {4.0F, 4.0F, 12.0F, 12.0F}, {4.0F, 4.0F, 12.0F, 12.0F}}),
      {.atol = 1e-5}));
}

TEST(YoloOutput, ThresholdsApplyToWhatTheSelectionSays) {
  // Conf 0.06, class 0.5: the probability is above 0.05, the score 0.03 is not.
  const std::vector<Tensor> weak{map_of({{0.06, 0.5, 0.01}})};
  EXPECT_EQ(yolo_detections(weak, kLayout, {})[0].scores.numel(), 1);
  EXPECT_EQ(yolo_detections(weak, kLayout, {.selection = YoloSelection::kConf})[0].scores.numel(),
            1);
  EXPECT_EQ(
      yolo_detections(weak, kLayout, {.selection = YoloSelection::kProduct})[0].scores.numel(), 0);
  EXPECT_EQ(yolo_detections(weak, kLayout, {.conf_threshold = 0.07})[0].scores.numel(), 0);
}

TEST(YoloOutput, LimitBeforeNmsKeepsTheBestByWhatTheSelectionSays) {
  // Cell 0 has the higher conf, cell 1 the higher class probability, cell 2 the highest product.
  const std::vector<Tensor> maps{map_of({{0.9, 0.1, 0.01}, {0.1, 0.9, 0.01}, {0.6, 0.6, 0.01}})};
  const auto kept = [&](YoloSelection selection) {
    const auto found = yolo_detections(maps, kLayout, {.selection = selection, .nms_pre = 1})[0];
    EXPECT_EQ(found.boxes.size(0), 1);
    return static_cast<int>(found.boxes[0][0].item<float>()) / 16;
  };
  EXPECT_EQ(kept(YoloSelection::kConf), 0);
  EXPECT_EQ(kept(YoloSelection::kClassProbability), 1);
  EXPECT_EQ(kept(YoloSelection::kProduct), 2);
  EXPECT_EQ(yolo_detections(maps, kLayout, {.nms_pre = -1})[0].boxes.size(0), 3);
}

TEST(YoloOutput, NmsIsWithinAClass) {
  // Two anchors of one cell, of IoU 64/100: above 0.45.
  const YoloLayout layout{.scales = {{.stride = 16, .anchors = {{8, 8}, {10, 10}}}},
                          .num_classes = 2};
  const auto map = [&](double second_class0, double second_class1) {
    return torch::cat({map_of({{0.9, 0.9, 0.001}}), map_of({{0.5, second_class0, second_class1}})},
                      1);
  };
  EXPECT_EQ(yolo_detections({map(0.9, 0.001)}, layout, {})[0].scores.numel(), 1);
  EXPECT_EQ(yolo_detections({map(0.001, 0.9)}, layout, {})[0].scores.numel(), 2);
}

TEST(YoloOutput, LeavesOutWhatIsNotFinite) {
  Tensor map = map_of({{0.9, 0.9, 0.1}, {0.9, 0.9, 0.1}, {0.9, 0.9, 0.001}});
  map[0][2][0][0] = 1000.0F;  // e^1000 pixels wide
  map[0][4][0][1] = NAN;
  const auto found = yolo_detections({map}, kLayout, {})[0];
  ASSERT_EQ(found.boxes.size(0), 1);
  EXPECT_FLOAT_EQ(found.boxes[0][0].item<float>(), 36.0F);
}

TEST(YoloOutput, BatchEqualsOneByOne) {
  const YoloLayout layout{.scales = yolov3_scales(), .num_classes = 4};
  std::vector<Tensor> maps;
  for (const YoloScale& scale : layout.scales) {
    maps.push_back(test::random_tensor({3, 27, 96 / scale.stride, 128 / scale.stride}, 8) * 3);
  }
  const auto together = yolo_detections(maps, layout, {});
  for (std::int64_t i = 0; i < 3; ++i) {
    std::vector<Tensor> one;
    for (const Tensor& map : maps) {
      one.push_back(map.slice(0, i, i + 1));
    }
    const auto alone = yolo_detections(one, layout, {})[0];
    const auto& same = together[static_cast<std::size_t>(i)];
    EXPECT_GT(alone.scores.numel(), 0);
    EXPECT_TRUE(alone.scores.equal(same.scores));
    EXPECT_TRUE(alone.boxes.equal(same.boxes));
  }
}

TEST(YoloOutput, NothingFoundIsEmpty) {
  const auto found = yolo_detections({torch::full({1, 7, 2, 2}, -20.0F)}, kLayout, {})[0];
  EXPECT_EQ(found.boxes.sizes(), (std::vector<std::int64_t>{0, 4}));
  EXPECT_EQ(found.labels.numel(), 0);
}

}  // namespace
}  // namespace detforge
