#include "detforge/ops/conv2d.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/types.h>

#include "detforge/core/error.h"
#include "detforge/ops/cpu/conv_kernels.h"
#include "detforge/ops/kernel_backend.h"
#include "support/torch/naive_ops.h"
#include "support/torch/tensors.h"

namespace detforge {
namespace {

using test::expect_close;

Tensor leaf(at::IntArrayRef shape) {
  return torch::randn(shape).requires_grad_();
}

TEST(Conv2d, AddsBiasResidualAndReluByHand) {
  // 1x1 kernel of weight 2 on (1, -3), bias 1: (3, -5); residual (0, 10): (3, 5); ReLU keeps both.
  const Tensor input = torch::tensor({1.0F, -3.0F}).view({1, 1, 1, 2});
  const Tensor weight = torch::tensor({2.0F}).view({1, 1, 1, 1});
  const Tensor residual = torch::tensor({0.0F, 10.0F}).view({1, 1, 1, 2});
  const Tensor bias = torch::ones({1});
  const Conv2dOptions relu{.activation = Activation::kRelu};
  EXPECT_TRUE(expect_close(conv2d(input, weight, bias, relu, residual),
                           torch::tensor({3.0F, 5.0F}).view({1, 1, 1, 2}), {}));
  EXPECT_TRUE(expect_close(conv2d(input, weight, bias, relu),
                           torch::tensor({3.0F, 0.0F}).view({1, 1, 1, 2}), {}));
  const Conv2dOptions leaky{.activation = Activation::kLeakyRelu};
  EXPECT_TRUE(expect_close(conv2d(input, weight, bias, leaky),
                           torch::tensor({3.0F, -0.5F}).view({1, 1, 1, 2}), {.rtol = 1e-6}));
}

TEST(Conv2d, EqualsNaiveLoopsForEveryOption) {
  torch::manual_seed(1);
  const std::vector<Conv2dOptions> cases{
      {},
      {.stride = {2, 1}, .padding = {1, 2}},
      {.padding = {2, 2}, .dilation = {2, 2}, .activation = Activation::kRelu},
      {.padding = {1, 1}, .groups = 2, .activation = Activation::kLeakyRelu, .leaky_slope = 0.3}};
  for (const Conv2dOptions& options : cases) {
    const Tensor input = torch::randn({2, 4, 7, 9});
    const Tensor weight = torch::randn({6, 4 / options.groups, 3, 3}), bias = torch::randn({6});
    const Tensor plain = conv2d(input, weight, bias, options);
    const Tensor residual = torch::randn(plain.sizes());
    // f32 sums of 36 products of size 1
    EXPECT_TRUE(expect_close(plain, test::naive_conv2d(input, weight, bias, options),
                             {.rtol = 1e-5, .atol = 1e-5}));
    EXPECT_TRUE(expect_close(conv2d(input, weight, {}, options, residual),
                             test::naive_conv2d(input, weight, {}, options, residual),
                             {.rtol = 1e-5, .atol = 1e-5}));
  }
}

TEST(Conv2d, FusedGradientsEqualUnfusedOnes) {
  torch::manual_seed(2);
  const Tensor input = leaf({2, 8, 9, 7}), weight = leaf({16, 8, 3, 3}), bias = leaf({16});
  const Tensor residual = leaf({2, 16, 9, 7});
  const Tensor grad = torch::randn({2, 16, 9, 7});
  const std::vector<Tensor> leaves{input, weight, bias, residual};
  const Tensor plain = at::conv2d(input, weight, bias, 1, 1) + residual;
  const auto expect_equal = [&](Activation activation, const Tensor& unfused) {
    const Tensor fused =
        conv2d(input, weight, bias,
               {.padding = {1, 1}, .activation = activation, .leaky_slope = 0.2}, residual);
    const auto actual = torch::autograd::grad({fused}, leaves, {grad});
    const auto expected = torch::autograd::grad({unfused}, leaves, {grad}, /*retain_graph=*/true);
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      EXPECT_TRUE(expect_close(actual[i], expected[i], {.rtol = 1e-5, .atol = 1e-5}))
          << "argument " << i;
    }
  };
  expect_equal(Activation::kNone, plain);
  expect_equal(Activation::kRelu, plain.relu());
  expect_equal(Activation::kLeakyRelu, at::leaky_relu(plain, 0.2));
}

TEST(Conv2d, GradientEqualsFiniteDifferencesInFloat64) {
  torch::manual_seed(3);
  const auto options = torch::dtype(torch::kDouble);
  Tensor weight = torch::randn({3, 2, 3, 3}, options).requires_grad_();
  const Tensor input = torch::randn({1, 2, 5, 5}, options), bias = torch::randn({3}, options);
  const Conv2dOptions conv{
      .stride = {2, 2}, .padding = {1, 1}, .activation = Activation::kLeakyRelu};
  const auto loss = [&] { return conv2d(input, weight, bias, conv).square().sum(); };
  const Tensor gradient = torch::autograd::grad({loss()}, {weight})[0];
  const double step = 1e-6;
  torch::NoGradGuard no_grad;
  for (std::int64_t i = 0; i < weight.numel(); ++i) {
    weight.view(-1)[i] += step;
    const double above = loss().item<double>();
    weight.view(-1)[i] -= 2 * step;
    const double below = loss().item<double>();
    weight.view(-1)[i] += step;
    EXPECT_NEAR(gradient.view(-1)[i].item<double>(), (above - below) / (2 * step), 1e-5)
        << "weight " << i;
  }
}

TEST(Conv2d, EmptyBatchHasOutputShapeAndZeroGradients) {
  const Tensor input = leaf({0, 4, 9, 8}), weight = leaf({6, 4, 3, 3}), bias = leaf({6});
  for (const Activation activation :
       {Activation::kNone, Activation::kRelu, Activation::kLeakyRelu}) {
    const Tensor output = conv2d(input, weight, bias,
                                 {.stride = {2, 2}, .padding = {1, 1}, .activation = activation});
    EXPECT_EQ(output.sizes(), (std::vector<std::int64_t>{0, 6, 5, 4}));
    const auto grads = torch::autograd::grad({output.sum()}, {input, weight, bias});
    EXPECT_EQ(grads[0].sizes(), input.sizes());
    EXPECT_TRUE(expect_close(grads[1], torch::zeros_like(weight), {}));
    EXPECT_TRUE(expect_close(grads[2], torch::zeros_like(bias), {}));
  }
}

TEST(Conv2d, EmptyBatchIgnoresNonFiniteWeights) {
  const Tensor weight = torch::full({2, 1, 1, 1}, NAN).requires_grad_();
  const Tensor output = conv2d(torch::zeros({0, 1, 3, 3}), weight, {}, Conv2dOptions{});
  EXPECT_TRUE(expect_close(torch::autograd::grad({output.sum()}, {weight})[0],
                           torch::zeros_like(weight), {}));
}

TEST(Conv2d, RefusesWrongChannels) {
  EXPECT_THROW(conv2d(torch::zeros({1, 3, 4, 4}), torch::zeros({2, 4, 1, 1}), {}, Conv2dOptions{}),
               Error);
  EXPECT_THROW(conv2d(torch::zeros({1, 3, 4, 4}), torch::zeros({2, 3, 1, 1}), {}, {},
                      torch::zeros({1, 1, 4, 4})),
               Error);
  EXPECT_THROW(conv2d(torch::zeros({3, 4, 4}), torch::zeros({2, 3, 1, 1}), {}, Conv2dOptions{}),
               Error);
}

TEST(Conv2d, RefusesWhatNoConvolutionIs) {
  const Tensor map = torch::zeros({1, 16, 2, 2}), weight = torch::zeros({16, 16, 3, 3});
  EXPECT_THROW(conv2d(map, weight, Tensor(), Conv2dOptions{}), Error);  // the kernel does not fit
  EXPECT_THROW(conv2d(map, weight, Tensor(), Conv2dOptions{.stride = {2, 2}}), Error);
  EXPECT_THROW(conv2d(map, weight, Tensor(), Conv2dOptions{.stride = {0, 1}, .padding = {1, 1}}),
               Error);
  EXPECT_THROW(conv2d(map, weight, torch::zeros({1}), Conv2dOptions{.padding = {1, 1}}), Error);
  EXPECT_THROW(
      conv2d(map, weight, {},
             {.padding = {1, 1}, .activation = Activation::kLeakyRelu, .leaky_slope = -0.5}),
      Error);
  EXPECT_THROW(linear(torch::zeros({2, 3}), torch::zeros({4, 3}), torch::zeros({1})), Error);
  EXPECT_THROW(conv_transpose2d(map, weight, torch::zeros({2}), Conv2dOptions{.stride = {2, 2}}),
               Error);
}

/// Through autograd, operands as callers may have them, a shape for each algorithm.
TEST(Conv2d, AnyLayoutOfOperandsGivesTheSameGradients) {
  torch::manual_seed(11);
  for (const std::int64_t side : {1, 3}) {
    const Conv2dOptions options{.padding = {side / 2, side / 2}, .activation = Activation::kRelu};
    const Tensor input = leaf({2, 32, 19, 23}), bias = leaf({32});
    const Tensor weight = leaf({32, 32, side, side});
    const Tensor gradient = torch::randn({1, 32, 1, 23});
    const auto gradients = [&](const Tensor& x, const Tensor& w, const Tensor& b, const Tensor& r) {
      const Tensor y = conv2d(x, w, b, options, r);
      // The output is used twice, and its gradient is expanded.
      return torch::autograd::grad({y + y.detach() * y}, {input, weight, bias},
                                   {gradient.expand(y.sizes())});
    };
    const Tensor sum = at::conv2d(input, weight, bias, 1, side / 2) + input;
    const Tensor y = sum.relu();
    const auto expected =
        torch::autograd::grad({y + y.detach() * y}, {input, weight, bias},
                              {gradient.expand(y.sizes())}, /*retain_graph=*/true);
    const Tensor strided = torch::stack({bias, bias}, 1).select(1, 0);
    for (const Tensor& x : {Tensor(input), input.contiguous(at::MemoryFormat::ChannelsLast),
                            input.transpose(2, 3).contiguous().transpose(2, 3)}) {
      const auto actual = gradients(x, weight.transpose(0, 1).contiguous().transpose(0, 1), strided,
                                    x);  // residual and input are one
      for (std::size_t i = 0; i < actual.size(); ++i) {
        // sums of 874 and 288 products of size 1 to 10
        EXPECT_TRUE(expect_close(actual[i], expected[i], {.rtol = 1e-4, .atol = 1e-2})) << i;
      }
    }
  }
}

TEST(Conv2d, AndInputHasTheGradientsOfTwoUses) {
  torch::manual_seed(13);
  for (const KernelBackend backend : {KernelBackend::kOwn, KernelBackend::kAten}) {
    const ScopedKernelBackend scoped(backend);
    for (const auto& [images, side, stride] :
         {std::array<std::int64_t, 3>{2, 1, 1}, {2, 1, 2}, {2, 3, 1}, {2, 3, 2}, {0, 3, 1}}) {
      const Tensor input = leaf({images, 32, 9, 11}), weight = leaf({48, 32, side, side});
      const Conv2dOptions options{.stride = {stride, stride}, .padding = {side / 2, side / 2}};
      const auto [output, shortcut] = conv2d_and_input(input, weight, {}, options);
      EXPECT_TRUE(shortcut.equal(input));
      if (backend == KernelBackend::kOwn && images > 0 && cpu::conv_kernels() != nullptr) {
        EXPECT_EQ(shortcut.grad_fn(), output.grad_fn());  // one backward for both gradients
      }
      const Tensor expected_output = at::conv2d(input, weight, {}, stride, side / 2);
      const Tensor weights_of_sum = torch::randn_like(expected_output);
      const auto loss = [&](const Tensor& y, const Tensor& x) {
        return (y * weights_of_sum).sum() + x.square().sum();
      };
      const auto actual = torch::autograd::grad({loss(output, shortcut)}, {input, weight});
      const auto expected = torch::autograd::grad({loss(expected_output, input)}, {input, weight},
                                                  {}, /*retain_graph=*/true);
      EXPECT_TRUE(expect_close(actual[0], expected[0], {.rtol = 1e-4, .atol = 1e-4}));
      EXPECT_TRUE(expect_close(actual[1], expected[1], {.rtol = 1e-4, .atol = 1e-4}));
    }
  }
}

TEST(Conv2d, AndInputMayBeUsedInPart) {
  if (cpu::conv_kernels() == nullptr) {
    GTEST_SKIP() << "the processor has no AVX2 and FMA";
  }
  const ScopedKernelBackend own(KernelBackend::kOwn);
  torch::manual_seed(15);
  const Tensor input = leaf({1, 16, 8, 8}), weight = leaf({16, 16, 3, 3}), bias = leaf({16});
  const Conv2dOptions options{.padding = {1, 1}, .activation = Activation::kLeakyRelu};
  const auto [output, shortcut] = conv2d_and_input(input, weight, bias, options);
  const Tensor alone = conv2d(input, weight, bias, options);
  const auto of_output = torch::autograd::grad({output.sum()}, {input, weight, bias}, {}, true);
  const auto expected = torch::autograd::grad({alone.sum()}, {input, weight, bias});
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(expect_close(of_output[i], expected[i], {.rtol = 1e-5, .atol = 1e-5})) << i;
  }
  const auto of_shortcut = torch::autograd::grad({shortcut.sum()}, {input, weight});
  EXPECT_TRUE(of_shortcut[0].equal(torch::ones_like(input)));
  EXPECT_TRUE(of_shortcut[1].equal(torch::zeros_like(weight)));
}

TEST(Conv2d, AndInputOfAFrozenInputAsksForNoGradient) {
  const Tensor input = torch::randn({1, 16, 8, 8}), weight = leaf({16, 16, 1, 1});
  const auto [output, shortcut] = conv2d_and_input(input, weight, {}, {});
  EXPECT_TRUE(output.requires_grad());
  EXPECT_FALSE(shortcut.requires_grad());
}

TEST(Conv2d, TrainsOnlyWhatAsksForIt) {
  torch::manual_seed(12);
  const Tensor input = torch::randn({1, 16, 8, 8}), weight = torch::randn({16, 16, 3, 3});
  const Tensor bias = leaf({16}), residual = leaf({1, 16, 8, 8});
  const Conv2dOptions options{.padding = {1, 1}};
  const Tensor y = conv2d(input, weight, bias, options, residual);
  const auto grads = torch::autograd::grad({y.sum()}, {bias, residual});
  EXPECT_TRUE(expect_close(grads[0], torch::full({16}, 64.0F), {}));
  EXPECT_TRUE(expect_close(grads[1], torch::ones({1, 16, 8, 8}), {}));
}

TEST(ConvTranspose2d, UpsamplesByHand) {
  // One pixel of value 3 through a 2x2 kernel at stride 2 becomes the kernel times 3, plus bias 1.
  const Tensor weight = torch::tensor({1.0F, 2.0F, 3.0F, 4.0F}).view({1, 1, 2, 2});
  const Tensor output = conv_transpose2d(torch::full({1, 1, 1, 1}, 3.0F), weight, torch::ones({1}),
                                         {.stride = {2, 2}});
  EXPECT_TRUE(
      expect_close(output, torch::tensor({4.0F, 7.0F, 10.0F, 13.0F}).view({1, 1, 2, 2}), {}));
}

TEST(ConvTranspose2d, IsTheAdjointOfConv2d) {
  // <conv(x), y> = <x, conv_transpose(y)> for the same weight, stride and padding.
  torch::manual_seed(4);
  const Tensor x = torch::randn({2, 3, 8, 6}), weight = torch::randn({5, 3, 2, 2});
  const Conv2dOptions options{.stride = {2, 2}};
  const Tensor forward = conv2d(x, weight, {}, options);
  const Tensor y = torch::randn(forward.sizes());
  EXPECT_NEAR((forward * y).sum().item<double>(),
              (x * conv_transpose2d(y, weight, {}, options)).sum().item<double>(), 1e-3);
}

TEST(ConvTranspose2d, TilesEqualLibTorchWithGradients) {
  torch::manual_seed(6);
  for (const std::int64_t side : {1, 2, 3}) {
    const Tensor input = leaf({2, 3, 4, 5}), weight = leaf({3, 6, side, side}), bias = leaf({6});
    const Conv2dOptions options{.stride = {side, side}, .activation = Activation::kRelu};
    const Tensor ours = conv_transpose2d(input, weight, bias, options);
    const Tensor theirs = at::conv_transpose2d(input, weight, bias, {side, side}).relu();
    EXPECT_TRUE(expect_close(ours, theirs, {.rtol = 1e-5, .atol = 1e-5}));
    const Tensor grad = torch::randn(ours.sizes());
    const auto a = torch::autograd::grad({ours}, {input, weight, bias}, {grad});
    const auto b = torch::autograd::grad({theirs}, {input, weight, bias}, {grad});
    for (std::size_t i = 0; i < a.size(); ++i) {
      EXPECT_TRUE(expect_close(a[i], b[i], {.rtol = 1e-5, .atol = 1e-4})) << i;
    }
  }
}

TEST(Conv1x1AtChannel, EqualsTheChannelOfTheWholeConvolutionWithGradients) {
  torch::manual_seed(7);
  const Tensor input = leaf({4, 6, 3, 5}), weight = leaf({8, 6, 1, 1}), bias = leaf({8});
  const Tensor channel = torch::tensor({7, 0, 3, 3});
  const Tensor ours = conv1x1_at_channel(input, weight, bias, channel);
  const Tensor theirs = conv2d(input, weight, bias, {}).index({torch::arange(4), channel});
  EXPECT_TRUE(expect_close(ours, theirs, {.rtol = 1e-5, .atol = 1e-5}));
  const Tensor grad = torch::randn(ours.sizes());
  const auto a = torch::autograd::grad({ours}, {input, weight, bias}, {grad});
  const auto b = torch::autograd::grad({theirs}, {input, weight, bias}, {grad});
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_TRUE(expect_close(a[i], b[i], {.rtol = 1e-5, .atol = 1e-5})) << i;
  }
}

TEST(Conv1x1AtChannel, EmptyBatchHasOutputShapeAndZeroGradients) {
  const Tensor input = leaf({0, 6, 3, 5}), weight = leaf({8, 6, 1, 1}), bias = leaf({8});
  const Tensor output = conv1x1_at_channel(input, weight, bias, torch::zeros({0}, torch::kLong));
  EXPECT_EQ(output.sizes(), (std::vector<std::int64_t>{0, 3, 5}));
  const auto grads = torch::autograd::grad({output.sum()}, {input, weight, bias});
  EXPECT_TRUE(expect_close(grads[1], torch::zeros_like(weight), {}));
  EXPECT_TRUE(expect_close(grads[2], torch::zeros_like(bias), {}));
}

TEST(ConvTranspose2d, EmptyBatchHasOutputShapeAndZeroGradients) {
  const Tensor input = leaf({0, 4, 14, 14}), weight = leaf({4, 6, 2, 2}), bias = leaf({6});
  const Tensor output =
      conv_transpose2d(input, weight, bias, {.stride = {2, 2}, .activation = Activation::kRelu});
  EXPECT_EQ(output.sizes(), (std::vector<std::int64_t>{0, 6, 28, 28}));
  const auto grads = torch::autograd::grad({output.sum()}, {input, weight, bias});
  EXPECT_TRUE(expect_close(grads[1], torch::zeros_like(weight), {}));
  EXPECT_TRUE(expect_close(grads[2], torch::zeros_like(bias), {}));
}

TEST(Linear, EqualsMatrixProductWithGradients) {
  torch::manual_seed(5);
  const Tensor input = leaf({5, 7}), weight = leaf({3, 7}), bias = leaf({3});
  const Tensor fused = linear(input, weight, bias, Activation::kRelu);
  const Tensor unfused = (input.matmul(weight.t()) + bias).relu();
  EXPECT_TRUE(expect_close(fused, unfused, {.rtol = 1e-5, .atol = 1e-6}));
  const Tensor grad = torch::randn({5, 3});
  const auto actual = torch::autograd::grad({fused}, {input, weight, bias}, {grad});
  const auto expected = torch::autograd::grad({unfused}, {input, weight, bias}, {grad});
  for (std::size_t i = 0; i < actual.size(); ++i) {
    EXPECT_TRUE(expect_close(actual[i], expected[i], {.rtol = 1e-5, .atol = 1e-6}));
  }
}

TEST(Linear, EmptyInputHasZeroGradients) {
  const Tensor input = leaf({0, 7}), weight = leaf({3, 7}), bias = leaf({3});
  const Tensor output = linear(input, weight, bias, Activation::kRelu);
  EXPECT_EQ(output.sizes(), (std::vector<std::int64_t>{0, 3}));
  const auto grads = torch::autograd::grad({output.sum()}, {input, weight, bias});
  EXPECT_TRUE(expect_close(grads[1], torch::zeros_like(weight), {}));
  EXPECT_TRUE(expect_close(grads[2], torch::zeros_like(bias), {}));
  EXPECT_THROW(linear(torch::zeros({2, 6}), weight, bias), Error);
}

}  // namespace
}  // namespace detforge
