#include "detforge/ops/batch_norm.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/types.h>

#include "support/torch/tensors.h"

namespace detforge {
namespace {

using test::expect_close;

constexpr auto kLast = at::MemoryFormat::ChannelsLast;

/// Output, running statistics and gradients, in order.
std::vector<Tensor> run(at::ScalarType type,
                        at::MemoryFormat layout,
                        at::IntArrayRef sizes,
                        Activation activation,
                        bool has_residual) {
  torch::manual_seed(3);
  const auto map = [&] { return (torch::randn(sizes) + 2).to(type).contiguous(layout); };
  const Tensor input = map().requires_grad_(), residual = map().requires_grad_(), grad = map();
  const Tensor weight = torch::randn({sizes[1]}).to(type).requires_grad_();
  const Tensor bias = torch::randn({sizes[1]}).to(type).requires_grad_();
  const auto options = torch::dtype(type);
  const Tensor mean = torch::full({sizes[1]}, 0.5, options),
               var = torch::full({sizes[1]}, 3, options);
  const Tensor output = batch_norm(input, weight, bias, mean, var,
                                   {.eps = 1e-3, .momentum = 0.3, .activation = activation},
                                   has_residual ? residual : Tensor());
  std::vector<Tensor> inputs{input, weight, bias};
  if (has_residual) {
    inputs.push_back(residual);
  }
  std::vector<Tensor> results{output, mean, var};
  for (const Tensor& gradient : torch::autograd::grad({output}, inputs, {grad})) {
    results.push_back(gradient);
  }
  return results;
}

TEST(BatchNorm, ByHand) {
  // Pixels 1 and 3 over a batch of two: mean 2, deviation 1, unbiased variance 2.
  const Tensor input = torch::tensor({1.0F, 3.0F}).view({2, 1, 1, 1}).expand({2, 2, 1, 1});
  Tensor mean = torch::zeros({2}), var = torch::ones({2});
  for (const auto layout : {at::MemoryFormat::Contiguous, kLast}) {
    mean.zero_();
    var.fill_(1);
    const Tensor output =
        batch_norm(input.contiguous(layout), torch::full({2}, 2.0F), torch::full({2}, 0.5F), mean,
                   var, {.eps = 1e-12, .momentum = 0.5});
    EXPECT_TRUE(
        expect_close(output.select(1, 1).flatten(), torch::tensor({-1.5F, 2.5F}), {.rtol = 1e-5}));
    EXPECT_TRUE(expect_close(mean, torch::ones({2}), {.rtol = 1e-6}));
    EXPECT_TRUE(expect_close(var, torch::full({2}, 1.5F), {.rtol = 1e-5}));
  }
}

TEST(BatchNormChannelsLast, EqualsLibTorchInF64WithGradientsAndStaysInIt) {
  for (const Activation activation :
       {Activation::kNone, Activation::kRelu, Activation::kLeakyRelu}) {
    for (const bool has_residual : {false, true}) {
      const std::vector<std::int64_t> sizes{3, 20, 7, 5};
      const auto actual = run(torch::kFloat, kLast, sizes, activation, has_residual);
      const auto expected =
          run(torch::kDouble, at::MemoryFormat::Contiguous, sizes, activation, has_residual);
      ASSERT_EQ(actual.size(), expected.size());
      for (std::size_t i = 0; i < actual.size(); ++i) {
        // f32 sums of 105 values of size 2
        EXPECT_TRUE(
            expect_close(actual[i].to(torch::kDouble), expected[i], {.rtol = 1e-4, .atol = 1e-4}))
            << i;
      }
      EXPECT_TRUE(actual[0].is_contiguous(kLast));
      EXPECT_TRUE(actual[3].is_contiguous(kLast));
    }
  }
}

TEST(BatchNormProperty, AnyThreadCountGivesTheSameBits) {
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  const auto one = run(torch::kFloat, kLast, {4, 24, 31, 29}, Activation::kLeakyRelu, true);
  for (const int threads : {2, 5}) {
    at::set_num_threads(threads);
    const auto many = run(torch::kFloat, kLast, {4, 24, 31, 29}, Activation::kLeakyRelu, true);
    for (std::size_t i = 0; i < one.size(); ++i) {
      EXPECT_TRUE(one[i].equal(many[i])) << i;
    }
  }
  at::set_num_threads(before);
}

}  // namespace
}  // namespace detforge
