#include "detforge/ops/group_norm.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/types.h>

#include "detforge/core/error.h"
#include "detforge/ops/cpu/group_norm_kernel.h"
#include "support/torch/tensors.h"

namespace detforge {
namespace {

constexpr auto kLast = at::MemoryFormat::ChannelsLast;

/// Output and gradients of input, weight, bias and, if there, residual.
struct Case {
  Tensor input, weight, bias, residual, grad;

  Case(at::IntArrayRef sizes, bool has_residual, double mean = 0) {
    input = (torch::randn(sizes) + mean).contiguous(kLast);
    weight = torch::randn({sizes[1]});
    bias = torch::randn({sizes[1]});
    if (has_residual) {
      residual = torch::randn(sizes).contiguous(kLast);
    }
    grad = torch::randn(sizes).contiguous(kLast);
  }

  std::vector<Tensor> run(const GroupNormOptions& options,
                          at::ScalarType type = torch::kFloat,
                          at::MemoryFormat layout = kLast) const {
    const auto leaf = [&](const Tensor& tensor) {
      return tensor.dim() == 4 ? tensor.to(type).clone(layout).requires_grad_()
                               : tensor.to(type).clone().requires_grad_();
    };
    std::vector<Tensor> inputs{leaf(input), leaf(weight), leaf(bias)};
    if (residual.defined()) {
      inputs.push_back(leaf(residual));
    }
    const Tensor output = group_norm(inputs[0], inputs[1], inputs[2], options,
                                     residual.defined() ? inputs[3] : Tensor());
    std::vector<Tensor> results = torch::autograd::grad({output}, inputs, {grad.to(type)});
    results.insert(results.begin(), output);
    return results;
  }
};

TEST(GroupNorm, ByHand) {
  // Two groups of one channel and two pixels: (1, 3) has mean 2 and deviation 1, (5, 5) none.
  const Tensor map = torch::tensor({1.0F, 3.0F, 5.0F, 5.0F}).view({1, 2, 1, 2});
  const Tensor weight = torch::tensor({2.0F, 2.0F}), bias = torch::tensor({0.5F, -1.0F});
  const Tensor expected = torch::tensor({-1.5F, 2.5F, -1.0F, -1.0F}).view({1, 2, 1, 2});
  const GroupNormOptions options{.groups = 2, .eps = 1e-12};
  for (const auto layout : {at::MemoryFormat::Contiguous, kLast}) {
    EXPECT_TRUE(test::expect_close(group_norm(map.contiguous(layout), weight, bias, options),
                                   expected, {.rtol = 1e-6}));
  }
}

TEST(GroupNormChannelsLast, EqualsLibTorchInF64WithGradients) {
  torch::manual_seed(1);
  for (const auto& sizes : std::vector<std::vector<std::int64_t>>{
           {2, 64, 20, 33}, {3, 32, 7, 7}, {1, 96, 1, 2}, {5, 6, 3, 3}}) {
    for (const auto activation : {Activation::kNone, Activation::kRelu, Activation::kLeakyRelu}) {
      for (const bool has_residual : {false, true}) {
        const Case c(sizes, has_residual);
        const GroupNormOptions options{.groups = sizes[1] % 32 == 0 ? 32 : 3,
                                       .activation = activation};
        const auto actual = c.run(options);
        const auto expected = c.run(options, torch::kDouble);
        EXPECT_TRUE(actual[0].is_contiguous(kLast));
        EXPECT_TRUE(actual[1].is_contiguous(kLast));
        for (std::size_t i = 0; i < actual.size(); ++i) {
          // A handful of f32 roundings each. Values about 0 behind a ReLU may lie on its other
          // side.
          EXPECT_TRUE(test::expect_close_l2(actual[i], expected[i].to(torch::kFloat), 3e-6))
              << i << " of map " << sizes[1];
        }
      }
    }
  }
}

TEST(GroupNormChannelsLast, StaysExactFarFromZero) {
  torch::manual_seed(2);
  const Case c({2, 32, 16, 16}, false, /*mean=*/300);
  const auto actual = c.run({}), expected = c.run({}, torch::kDouble);
  // f32 holds the input itself to 300 * 6e-8 = 2e-5 of its deviation.
  EXPECT_TRUE(test::expect_close_l2(actual[0], expected[0].to(torch::kFloat), 1e-4));
}

TEST(GroupNormProperty, BothKernelBuildsGiveTheSameBits) {
  torch::manual_seed(3);
  const cpu::GroupNormShape shape{
      .images = 2, .pixels = 300, .channels = 38, .groups = 2, .eps = 1e-5F};
  const Tensor x = torch::randn({2 * 300 * 38}), residual = torch::randn_like(x);
  const Tensor weight = torch::randn({38}), bias = torch::randn({38}), grad = torch::randn_like(x);
  const auto run = [&](cpu::KernelBuild build) {
    Tensor y = torch::empty_like(x), grad_x = torch::empty_like(x), mask = torch::empty_like(x);
    Tensor grad_weight = torch::empty_like(weight), grad_bias = torch::empty_like(bias);
    const cpu::GroupNormActivation relu{.is_there = true, .slope = 0.0F};
    const auto statistics = cpu::group_norm_forward(
        shape, x.data_ptr<float>(), weight.data_ptr<float>(), bias.data_ptr<float>(),
        residual.data_ptr<float>(), relu, y.data_ptr<float>(), build);
    cpu::group_norm_backward(shape, x.data_ptr<float>(), y.data_ptr<float>(),
                             weight.data_ptr<float>(), statistics, relu, grad.data_ptr<float>(),
                             {.x = grad_x.data_ptr<float>(),
                              .weight = grad_weight.data_ptr<float>(),
                              .bias = grad_bias.data_ptr<float>(),
                              .residual = mask.data_ptr<float>()},
                             build);
    return torch::cat({y, grad_x, mask, grad_weight, grad_bias});
  };
  EXPECT_TRUE(torch::equal(run(cpu::KernelBuild::kPortable), run(cpu::best_kernel_build())));
}

TEST(GroupNormProperty, AnyThreadCountGivesTheSameBits) {
  torch::manual_seed(4);
  const Case c({3, 64, 25, 31}, true);
  const auto run = [&](int threads) {
    at::set_num_threads(threads);
    return c.run({.activation = Activation::kRelu});
  };
  const int before = at::get_num_threads();
  const auto one = run(1), two = run(2), five = run(5);
  at::set_num_threads(before);
  for (std::size_t i = 0; i < one.size(); ++i) {
    EXPECT_TRUE(torch::equal(one[i], two[i])) << i;
    EXPECT_TRUE(torch::equal(one[i], five[i])) << i;
  }
}

TEST(GroupNorm, RefusesShapesThatDoNotFit) {
  const Tensor map = torch::zeros({1, 32, 2, 2}), weight = torch::ones({32});
  EXPECT_THROW(group_norm(map, weight, weight, {.groups = 5}), Error);
  EXPECT_THROW(group_norm(map, torch::ones({31}), weight, {}), Error);
  EXPECT_THROW(group_norm(map, weight, weight, {}, torch::zeros({1, 32, 2, 3})), Error);
}

}  // namespace
}  // namespace detforge
