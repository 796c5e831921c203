#include "detforge/ops/fold_norm.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/types.h>

#include "detforge/core/error.h"
#include "detforge/ops/conv2d.h"
#include "detforge/ops/kernel_backend.h"
#include "support/torch/tensors.h"

namespace detforge {
namespace {

using test::expect_close;

FrozenNorm random_norm(std::int64_t channels, at::TensorOptions options) {
  return {.gamma = torch::randn(channels, options).requires_grad_(),
          .beta = torch::randn(channels, options).requires_grad_(),
          .running_mean = torch::randn(channels, options),
          .running_var = torch::rand(channels, options) + 0.1};
}

TEST(FoldFrozenNorm, ScalesWeightAndShiftsBiasByHand) {
  // gamma 6 / sqrt(var 9 - eps + eps) = 2; weight 5 -> 10; bias (1 - mean 4) * 2 + beta 7 = 1.
  const FrozenNorm norm{.gamma = torch::full(1, 6.0),
                        .beta = torch::full(1, 7.0),
                        .running_mean = torch::full(1, 4.0),
                        .running_var = torch::full(1, 9.0),
                        .eps = 0.0};
  const FoldedConv folded = fold_frozen_norm(torch::full({1, 1, 1, 1}, 5.0), torch::ones(1), norm);
  EXPECT_NEAR(folded.weight.item<double>(), 10.0, 1e-6);
  EXPECT_NEAR(folded.bias.item<double>(), 1.0, 1e-6);
}

TEST(FoldFrozenNorm, EqualsUnfusedFormWithGradients) {
  torch::manual_seed(1);
  const auto f64 = torch::dtype(torch::kDouble);
  for (const bool with_bias : {true, false}) {
    const FrozenNorm norm = random_norm(6, f64);
    const Tensor input = torch::randn({2, 4, 5, 5}, f64).requires_grad_();
    const Tensor weight = torch::randn({6, 4, 3, 3}, f64).requires_grad_();
    const Tensor bias = with_bias ? Tensor(torch::randn(6, f64).requires_grad_()) : Tensor();
    const FoldedConv folded = fold_frozen_norm(weight, bias, norm);
    const Tensor fused = conv2d(input, folded.weight, folded.bias, {.padding = {1, 1}});
    const Tensor unfused =
        at::batch_norm(at::conv2d(input, weight, bias, 1, 1), norm.gamma, norm.beta,
                       norm.running_mean, norm.running_var, false, 0.1, norm.eps, false);
    EXPECT_TRUE(expect_close(fused, unfused, {.rtol = 1e-9, .atol = 1e-9}));
    std::vector<Tensor> leaves{input, weight, norm.gamma, norm.beta};
    if (with_bias) {
      leaves.push_back(bias);
    }
    const Tensor grad = torch::randn(fused.sizes(), f64);
    const auto actual = torch::autograd::grad({fused}, leaves, {grad});
    const auto expected = torch::autograd::grad({unfused}, leaves, {grad});
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      EXPECT_TRUE(expect_close(actual[i], expected[i], {.rtol = 1e-9, .atol = 1e-9}))
          << "leaf " << i;
    }
  }
}

TEST(FoldFrozenNorm, OwnGradientsEqualLibTorchs) {
  torch::manual_seed(4);
  const FrozenNorm norm = random_norm(33, {});
  const Tensor weight = torch::randn({33, 5, 3, 3}).requires_grad_();
  const Tensor grad = torch::randn({33, 5, 3, 3});
  const auto gradients = [&](KernelBackend backend) {
    const ScopedKernelBackend scoped(backend);
    return torch::autograd::grad({fold_frozen_norm(weight, {}, norm).weight}, {weight, norm.gamma},
                                 {grad});
  };
  const auto own = gradients(KernelBackend::kOwn), expected = gradients(KernelBackend::kAten);
  EXPECT_TRUE(own[0].equal(expected[0]));
  EXPECT_TRUE(expect_close(own[1], expected[1], {.rtol = 1e-5, .atol = 1e-5}));
}

TEST(FoldFrozenNorm, StaysWithinRoundingInFloat32) {
  torch::manual_seed(2);
  const FrozenNorm norm = random_norm(16, {});
  const Tensor input = torch::randn({1, 8, 6, 6}), weight = torch::randn({16, 8, 3, 3});
  const FoldedConv folded = fold_frozen_norm(weight, {}, norm);
  const Tensor fused = conv2d(input, folded.weight, folded.bias, {});
  const Tensor unfused =
      at::batch_norm(at::conv2d(input, weight), norm.gamma, norm.beta, norm.running_mean,
                     norm.running_var, false, 0.1, norm.eps, false);
  EXPECT_TRUE(test::expect_close_l2(fused, unfused, 1e-6));
}

TEST(FoldFrozenNorm, RefusesOtherChannelCounts) {
  EXPECT_THROW(fold_frozen_norm(torch::zeros({4, 1, 1, 1}), {}, random_norm(5, {})), Error);
}

}  // namespace
}  // namespace detforge
