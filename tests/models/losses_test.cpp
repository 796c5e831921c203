#include "detforge/models/losses.h"

#include <functional>

#include <gtest/gtest.h>
#include <torch/types.h>

#include "support/torch/random_boxes.h"
#include "support/torch/tensors.h"

namespace detforge {
namespace {

using test::expect_close;

// Central differences in f64 against autograd.
testing::AssertionResult gradient_is_right(const std::function<Tensor(const Tensor&)>& loss,
                                           const Tensor& at) {
  constexpr double kStep = 1e-6;
  const Tensor x = at.to(torch::kDouble).clone().set_requires_grad(true);
  loss(x).backward();
  const torch::NoGradGuard no_grad;
  Tensor numeric = torch::zeros_like(x);
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    Tensor above = x.detach().clone();
    Tensor below = x.detach().clone();
    above.view(-1)[i] += kStep;
    below.view(-1)[i] -= kStep;
    numeric.view(-1)[i] = (loss(above) - loss(below)) / (2 * kStep);
  }
  return expect_close(x.grad(), numeric, {.rtol = 1e-5, .atol = 1e-6});
}

TEST(SmoothL1Loss, ByHand) {
  // |d| = 0.5, 2: beta 1: 0.5 * 0.25 + (2 - 0.5) = 1.625; beta 0: 2.5
  const Tensor input = torch::tensor({0.5F, -2.0F});
  const Tensor target = torch::zeros({2});
  EXPECT_FLOAT_EQ(smooth_l1_loss_sum(input, target, 1.0).item<float>(), 1.625F);
  EXPECT_FLOAT_EQ(smooth_l1_loss_sum(input, target, 0.0).item<float>(), 2.5F);
}

TEST(SmoothL1Loss, GradientIsRight) {
  const Tensor x = test::random_tensor({20}, 1);
  const Tensor target = test::random_tensor({20}, 2).to(torch::kDouble);
  for (const double beta : {0.0, 0.11, 1.0}) {
    EXPECT_TRUE(
        gradient_is_right([&](const Tensor& t) { return smooth_l1_loss_sum(t, target, beta); }, x));
  }
}

TEST(SigmoidBceLoss, ByHandAndFiniteForHugeLogits) {
  // logit 0: log 2 whatever the target; logit 50000 with target 0: 50000
  const Tensor logits = torch::tensor({0.0F, 50000.0F, -50000.0F});
  const Tensor targets = torch::tensor({1.0F, 0.0F, 0.0F});
  EXPECT_FLOAT_EQ(sigmoid_bce_loss_sum(logits, targets).item<float>(), 0.693147F + 50000.0F);
}

TEST(SigmoidBceLoss, GradientIsSigmoidMinusTargetAlsoAtZero) {
  Tensor logits = torch::tensor({0.0F, 2.0F}).set_requires_grad(true);
  sigmoid_bce_loss_sum(logits, torch::tensor({1.0F, 0.0F})).backward();
  EXPECT_TRUE(expect_close(logits.grad(), torch::tensor({-0.5F, 0.880797F}), {.atol = 1e-6}));
}

TEST(SoftmaxCrossEntropyLoss, ByHand) {
  // two equal logits: log 2; logits (0, log 3), class 1: log(4 / 3)
  const Tensor logits = torch::tensor({{1.0F, 1.0F}, {0.0F, 1.0986123F}});
  const Tensor classes = torch::tensor(std::vector<std::int64_t>{0, 1}, torch::kLong);
  EXPECT_NEAR(softmax_cross_entropy_loss_sum(logits, classes).item<double>(), 0.693147 + 0.287682,
              1e-6);
}

TEST(SoftmaxCrossEntropyLoss, GradientIsRight) {
  const Tensor classes = torch::tensor(std::vector<std::int64_t>{0, 2, 1}, torch::kLong);
  EXPECT_TRUE(
      gradient_is_right([&](const Tensor& t) { return softmax_cross_entropy_loss_sum(t, classes); },
                        test::random_tensor({3, 4}, 3)));
}

TEST(IouLosses, ByHand) {
  // a = [0,0,2,2], b = [1,0,3,2]: intersection 2, union 6, hull 6; centres 1 apart, diagonal^2 = 9
  // + 4
  const Tensor a = torch::tensor({{0.0F, 0.0F, 2.0F, 2.0F}});
  const Tensor b = torch::tensor({{1.0F, 0.0F, 3.0F, 2.0F}});
  EXPECT_NEAR(giou_loss(a, b).item<double>(), 1 - 1.0 / 3, 1e-6);
  EXPECT_NEAR(diou_loss(a, b).item<double>(), 1 - 1.0 / 3 + 1.0 / 13, 1e-6);
  EXPECT_NEAR(ciou_loss(a, b).item<double>(), 1 - 1.0 / 3 + 1.0 / 13, 1e-6);  // equal aspect ratios
}

TEST(IouLosses, DisjointBoxes) {
  // a = [0,0,1,1], b = [3,0,4,1]: no intersection, union 2, hull 4: GIoU = 0 - 2 / 4
  const Tensor a = torch::tensor({{0.0F, 0.0F, 1.0F, 1.0F}});
  const Tensor b = torch::tensor({{3.0F, 0.0F, 4.0F, 1.0F}});
  EXPECT_NEAR(giou_loss(a, b).item<double>(), 1.5, 1e-6);
  EXPECT_NEAR(diou_loss(a, b).item<double>(), 1 + 9.0 / 17, 1e-6);
}

TEST(IouLosses, GradientsAreRight) {
  const Tensor boxes = test::random_boxes(12, 20, 5);
  const Tensor targets = test::random_boxes(12, 20, 6).to(torch::kDouble);
  for (const auto type : {BoxLossType::kGiou, BoxLossType::kDiou}) {
    EXPECT_TRUE(
        gradient_is_right([&](const Tensor& t) { return iou_loss_sum(t, targets, type); }, boxes));
  }
}

TEST(IouLosses, CiouGradientTreatsAlphaAsConstant) {
  const Tensor boxes = test::random_boxes(6, 20, 7).to(torch::kDouble);
  const Tensor targets = test::random_boxes(6, 20, 8).to(torch::kDouble);
  const auto aspect = [&](const Tensor& b) {
    const auto ratio = [](const Tensor& t) {
      return ((t.select(1, 2) - t.select(1, 0)) / (t.select(1, 3) - t.select(1, 1))).atan();
    };
    return 4.0 / (M_PI * M_PI) * (ratio(targets) - ratio(b)).square();
  };
  const Tensor alpha =
      ((ciou_loss(boxes, targets) - diou_loss(boxes, targets)) / aspect(boxes)).detach();
  const auto with_fixed_alpha = [&](const Tensor& t) {
    return (diou_loss(t, targets) + alpha * aspect(t)).sum();
  };
  const Tensor x = boxes.clone().set_requires_grad(true);
  const Tensor y = boxes.clone().set_requires_grad(true);
  iou_loss_sum(x, targets, BoxLossType::kCiou).backward();
  with_fixed_alpha(y).backward();
  EXPECT_TRUE(expect_close(x.grad(), y.grad(), {.rtol = 1e-8, .atol = 1e-10}));
}

TEST(IouLossesProperty, ZeroForEqualBoxesAndOrdered) {
  const Tensor boxes = test::random_boxes(50, 40, 9);
  const Tensor others = test::random_boxes(50, 40, 10);
  for (const auto type : {BoxLossType::kGiou, BoxLossType::kDiou, BoxLossType::kCiou}) {
    EXPECT_NEAR(iou_loss_sum(boxes, boxes, type).item<double>(), 0.0, 1e-4);
  }
  EXPECT_TRUE((ciou_loss(boxes, others) >= diou_loss(boxes, others) - 1e-6).all().item<bool>());
  EXPECT_TRUE((giou_loss(boxes, others) <= 2.0).all().item<bool>());
}

TEST(Losses, OverNothingAreZeroAndConnected) {
  const Tensor x = torch::ones({3, 4}).set_requires_grad(true);
  const Tensor none = x.slice(0, 0, 0);
  const Tensor classes = torch::zeros({0}, torch::kLong);
  const Tensor total =
      smooth_l1_loss_sum(none, none.detach(), 0.0) + smooth_l1_loss_sum(none, none.detach(), 1.0) +
      sigmoid_bce_loss_sum(none, none.detach()) + softmax_cross_entropy_loss_sum(none, classes) +
      iou_loss_sum(none, none.detach(), BoxLossType::kGiou) +
      iou_loss_sum(none, none.detach(), BoxLossType::kCiou);
  total.backward();
  EXPECT_EQ(total.item<float>(), 0.0F);
  EXPECT_TRUE(expect_close(x.grad(), torch::zeros({3, 4}), {}));
}

}  // namespace
}  // namespace detforge
