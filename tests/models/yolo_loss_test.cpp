#include "detforge/models/yolo/yolo_loss.h"

#include <cmath>

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "detforge/core/error.h"
#include "detforge/models/yolo/yolo_coder.h"
#include "support/torch/naive_yolo.h"
#include "support/torch/random_boxes.h"
#include "support/torch/tensors.h"

namespace detforge {
namespace {

using test::expect_close;

YoloLayout small_layout(double scale_xy = 1.0) {
  return {.scales = {{.stride = 16, .anchors = {{24, 20}, {14, 30}}, .scale_xy = scale_xy},
                     {.stride = 8, .anchors = {{8, 10}, {12, 6}}, .scale_xy = scale_xy}},
          .num_classes = 3};
}

std::vector<Tensor> random_maps(const YoloLayout& layout, std::int64_t images, std::uint64_t seed) {
  std::vector<Tensor> maps;
  for (const YoloScale& scale : layout.scales) {
    maps.push_back(test::random_tensor({images, scale.anchor_count() * layout.values_per_anchor(),
                                        48 / scale.stride, 64 / scale.stride},
                                       ++seed) *
                   2);
  }
  return maps;
}

Targets random_targets(std::int64_t objects, std::uint64_t seed) {
  Tensor labels = torch::arange(objects, torch::kLong).remainder(3);
  return {.boxes = test::random_boxes(objects, 48, seed), .labels = labels};
}

std::vector<YoloLossOptions> both_assigners() {
  YoloLossOptions darknet = darknet_loss_options();
  darknet.darknet.ignore_iou = 0.3;  // so that random predictions reach it
  return {YoloLossOptions{}, darknet};
}

TEST(YoloCoder, ByHand) {
  // Anchor centre (8, 8) of 16x8; object centre (10, 6) of 8x16: x = 2/16 + 0.5, y = -2/16 + 0.5.
  const YoloScale scale{.stride = 16, .anchors = {{16, 8}}};
  const Tensor anchor = torch::tensor({{0.0F, 4.0F, 16.0F, 12.0F}});
  const Tensor gt = torch::tensor({{6.0F, -2.0F, 14.0F, 14.0F}});
  const auto log2 = static_cast<float>(std::log(2.0));
  EXPECT_TRUE(expect_close(encode_yolo_boxes(anchor, gt, scale),
                           torch::tensor({{0.625F, 0.375F, -log2, log2}}), {.atol = 1e-6}));
}

TEST(YoloCoder, DecodeUndoesEncode) {
  for (const double scale_xy : {1.0, 1.2}) {
    const YoloScale scale{.stride = 16, .anchors = {{30, 20}}, .scale_xy = scale_xy};
    const Tensor anchors = yolo_anchors(scale, {3, 4});
    const Tensor offsets = test::random_tensor({12, 4}, 3) * 3;
    const Tensor gt = anchors + offsets;  // centres stay in their cells
    EXPECT_TRUE(
        expect_close(decode_yolo_boxes(anchors, encode_yolo_boxes(anchors, gt, scale), scale), gt,
                     {.rtol = 1e-6, .atol = 1e-4}));
  }
}

TEST(YoloCoder, ClampsWhatHasNoLogit) {
  const YoloScale scale{.stride = 16, .anchors = {{16, 16}}};
  const Tensor encoded = encode_yolo_boxes(torch::tensor({{0.0F, 0.0F, 16.0F, 16.0F}}),
                                           torch::tensor({{40.0F, -40.0F, 40.0F, -30.0F}}), scale);
  EXPECT_FLOAT_EQ(encoded[0][0].item<float>(), 1.0F - 1e-6F);
  EXPECT_FLOAT_EQ(encoded[0][1].item<float>(), 1e-6F);
  EXPECT_FLOAT_EQ(encoded[0][2].item<float>(), std::log(1e-6F));
}

TEST(YoloLoss, ByHand) {
  // One cell, one anchor 16x16, two classes, all logits 0 but w = 1. The object is the anchor:
  // x = y = 0.5, w = h = 0. BCE of logit 0 is ln 2 whatever the target: cls 2 ln 2, conf ln 2, xy
  // 2 * 2 ln 2, wh 2 * 1.
  const YoloLayout layout{.scales = {{.stride = 16, .anchors = {{16, 16}}}}, .num_classes = 2};
  Tensor map = torch::zeros({1, 7, 1, 1});
  map[0][2] = 1.0F;
  const Targets targets{.boxes = torch::tensor({{0.0F, 0.0F, 16.0F, 16.0F}}),
                        .labels = torch::ones({1}, torch::kLong)};
  const LossMap losses = yolo_losses({map}, layout, {targets}, {});
  const double ln2 = std::log(2.0);
  const std::vector<std::pair<std::string, double>> expected{
      {"loss_cls", 2 * ln2}, {"loss_conf", ln2}, {"loss_xy", 4 * ln2}, {"loss_wh", 2.0}};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(losses[i].name, expected[i].first);
    EXPECT_NEAR(losses[i].value.item<double>(), expected[i].second, 1e-6) << expected[i].first;
  }
}

TEST(YoloLoss, EqualsLoopsOverEverything) {
  for (const double scale_xy : {1.0, 1.1}) {
    const YoloLayout layout = small_layout(scale_xy);
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      const std::vector<Tensor> maps = random_maps(layout, 3, 10 * seed);
      const std::vector<Targets> targets{random_targets(6, seed), random_targets(0, seed),
                                         random_targets(2, seed + 50)};
      for (const YoloLossOptions& options : both_assigners()) {
        const auto expected = test::naive_yolo_losses(maps, layout, targets, options);
        const LossMap losses = yolo_losses(maps, layout, targets, options);
        for (std::size_t i = 0; i < 4; ++i) {
          EXPECT_NEAR(losses[i].value.item<double>(), expected[i], 1e-4 + 1e-5 * expected[i])
              << losses[i].name << " seed " << seed;
        }
      }
    }
  }
}

TEST(YoloLoss, GradientEqualsDifferencesOfTheLoops) {
  const YoloLayout layout = small_layout();
  const std::vector<Targets> targets{random_targets(5, 7)};
  const auto naive_total = [&](const std::vector<Tensor>& maps, const YoloLossOptions& options) {
    const auto terms = test::naive_yolo_losses(maps, layout, targets, options);
    return terms[0] + terms[1] + terms[2] + terms[3];
  };
  for (const YoloLossOptions& options : both_assigners()) {
    std::vector<Tensor> maps = random_maps(layout, 1, 4);
    for (Tensor& map : maps) {
      map.set_requires_grad(true);
    }
    Tensor total = torch::zeros({});
    for (const auto& [name, loss, count] : yolo_losses(maps, layout, targets, options)) {
      total = total + loss;
    }
    total.backward();
    for (std::size_t m = 0; m < maps.size(); ++m) {
      const std::int64_t count = maps[m].numel();
      for (std::int64_t i = 3; i < count; i += count / 23) {
        std::vector<Tensor> moved{maps[0].detach().to(torch::kDouble),
                                  maps[1].detach().to(torch::kDouble)};
        double* value = moved[m].data_ptr<double>() + i;
        *value += 1e-5;
        const double above = naive_total(moved, options);
        *value -= 2e-5;
        const double difference = (above - naive_total(moved, options)) / 2e-5;
        EXPECT_NEAR(maps[m].grad().flatten()[i].item<double>(), difference, 1e-4) << m << " " << i;
      }
    }
  }
}

TEST(YoloLoss, WithoutObjectsOnlyConfIsLeftAndEverythingHasAGradient) {
  const YoloLayout layout = small_layout();
  std::vector<Tensor> maps = random_maps(layout, 2, 1);
  for (Tensor& map : maps) {
    map.set_requires_grad(true);
  }
  const std::vector<Targets> targets{random_targets(0, 1), random_targets(0, 2)};
  const LossMap losses = yolo_losses(maps, layout, targets, {});
  Tensor total = torch::zeros({});
  for (const auto& [name, loss, count] : losses) {
    EXPECT_EQ(loss.item<double>() > 0, name == "loss_conf") << name;
    total = total + loss;
  }
  total.backward();
  for (const Tensor& map : maps) {
    const Tensor rows = map.grad().view({2, 2, 8, -1});
    EXPECT_TRUE(rows.select(2, 4).ne(0).all().item<bool>());
    EXPECT_EQ(rows.ne(0).sum().item<std::int64_t>(), rows.select(2, 4).numel());
  }
}

TEST(YoloLoss, BatchIsTheSumOfItsImages) {
  const YoloLayout layout = small_layout();
  const std::vector<Tensor> maps = random_maps(layout, 2, 9);
  const std::vector<Targets> targets{random_targets(4, 1), random_targets(3, 2)};
  const LossMap both = yolo_losses(maps, layout, targets, {});
  for (std::size_t term = 0; term < both.size(); ++term) {
    double sum = 0;
    for (std::int64_t i = 0; i < 2; ++i) {
      const std::vector<Tensor> one{maps[0].slice(0, i, i + 1), maps[1].slice(0, i, i + 1)};
      sum += yolo_losses(one, layout, {targets[static_cast<std::size_t>(i)]}, {})[term]
                 .value.item<double>();
    }
    EXPECT_NEAR(both[term].value.item<double>(), sum, 1e-5 * sum) << both[term].name;
  }
}

TEST(YoloLoss, IsTheSameForAnyNumberOfThreads) {
  YoloLayout layout{.scales = yolov3_scales(), .num_classes = 5};
  std::vector<Tensor> maps;
  for (const YoloScale& scale : layout.scales) {
    maps.push_back(test::random_tensor({4, 30, 608 / scale.stride, 608 / scale.stride}, 3));
  }
  const std::vector<Targets> targets(
      4, {.boxes = test::random_boxes(20, 600, 5), .labels = torch::zeros({20}, torch::kLong)});
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const LossMap one = yolo_losses(maps, layout, targets, {});
  for (const int count : {2, 3, 4, 7}) {
    at::set_num_threads(count);
    const LossMap many = yolo_losses(maps, layout, targets, {});
    for (std::size_t i = 0; i < one.size(); ++i) {
      EXPECT_EQ(one[i].value.item<float>(), many[i].value.item<float>()) << one[i].name;
    }
  }
  at::set_num_threads(threads);
}

TEST(YoloLoss, RefusesMapsOfOtherLayouts) {
  const YoloLayout layout = small_layout();
  std::vector<Tensor> maps = random_maps(layout, 1, 1);
  EXPECT_THROW(yolo_losses(maps, layout, {}, {}), Error);
  maps[1] = torch::zeros({1, 15, 6, 8});
  try {
    yolo_losses(maps, layout, {random_targets(1, 1)}, {});
    FAIL() << "15 channels are not 16";
  } catch (const Error& error) {
    EXPECT_NE(error.fix().find("16 channels"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace detforge
