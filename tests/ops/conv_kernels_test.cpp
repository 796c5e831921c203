// The convolution kernels alone, each build, against LibTorch's convolution in float64.

#include <algorithm>
#include <cmath>
#include <vector>

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/types.h>

#include "detforge/core/tensor.h"
#include "detforge/ops/cpu/conv_passes.h"

namespace detforge {
namespace {

using cpu::ConvAlgorithm;
using cpu::ConvKernels;
using cpu::ConvShape;

constexpr at::MemoryFormat kNhwc = at::MemoryFormat::ChannelsLast;

std::vector<const ConvKernels*> builds() {
  std::vector<const ConvKernels*> found;
  for (const ConvKernels* build : {cpu::avx2_conv_kernels(), cpu::avx512_conv_kernels()}) {
    if (build != nullptr) {
      found.push_back(build);
    }
  }
  return found;
}

/// Workspace whose blocks are filled with NaN: whatever is read before it is written shows.
class NanScratch {
 public:
  cpu::Workspace workspace() {
    return [this](std::int64_t floats) {
      blocks_.push_back(at::full({floats}, NAN));
      return blocks_.back().data_ptr<float>();
    };
  }

 private:
  std::vector<Tensor> blocks_;
};

/// What the three passes get and give.
struct Passes {
  Tensor output, grad_input, grad_weight;
};

struct Operands {
  Tensor input, weight, grad_output;
};

Operands random_operands(const ConvShape& s) {
  const auto nhwc = [](at::IntArrayRef sizes) { return torch::randn(sizes).contiguous(kNhwc); };
  return {.input = nhwc({s.images, s.in_channels, s.input[0], s.input[1]}).relu_(),
          .weight = torch::randn({s.out_channels, s.in_channels, s.kernel[0], s.kernel[1]}),
          .grad_output = nhwc({s.images, s.out_channels, s.output(0), s.output(1)})};
}

Passes run(const ConvKernels& k, const ConvShape& s, ConvAlgorithm algorithm, const Operands& o) {
  Passes p{.output = at::full_like(o.grad_output, NAN),
           .grad_input = at::full_like(o.input, NAN),
           .grad_weight = at::full_like(o.weight, NAN)};
  NanScratch scratch;
  cpu::conv_forward(k, s, algorithm, o.input.data_ptr<float>(), o.weight.data_ptr<float>(), {},
                    p.output.data_ptr<float>(), scratch.workspace());
  cpu::conv_backward_data(k, s, algorithm, o.grad_output.data_ptr<float>(),
                          o.weight.data_ptr<float>(), {}, p.grad_input.data_ptr<float>(),
                          scratch.workspace());
  cpu::conv_backward_weight(k, s, algorithm, o.input.data_ptr<float>(),
                            o.grad_output.data_ptr<float>(), p.grad_weight.data_ptr<float>(),
                            scratch.workspace());
  return p;
}

Passes reference(const ConvShape& s, const Operands& o, torch::ScalarType dtype) {
  const Tensor input = o.input.to(dtype).contiguous().requires_grad_();
  const Tensor weight = o.weight.to(dtype).requires_grad_();
  const Tensor output = at::conv2d(input, weight, {}, s.stride, s.padding, s.dilation);
  const auto grads =
      torch::autograd::grad({output}, {input, weight}, {o.grad_output.to(dtype).contiguous()});
  return {output.detach(), grads[0], grads[1]};
}

/// A 3x3 convolution of stride 1 and padding 1 in f32, one running sum per result.
Tensor plain_convolution(const Tensor& any_input, const Tensor& any_weight) {
  const Tensor input = any_input.contiguous(), weight = any_weight.contiguous();
  const std::int64_t height = input.size(2), width = input.size(3);
  Tensor output = torch::zeros({input.size(0), weight.size(0), height, width});
  const auto x = input.accessor<float, 4>(), w = weight.accessor<float, 4>();
  auto y = output.accessor<float, 4>();
  for (std::int64_t n = 0; n < output.size(0); ++n) {
    for (std::int64_t o = 0; o < output.size(1); ++o) {
      for (std::int64_t i = 0; i < height * width; ++i) {
        const std::int64_t row = i / width, column = i % width;
        float sum = 0;
        for (std::int64_t c = 0; c < input.size(1); ++c) {
          for (std::int64_t ky = std::max<std::int64_t>(0, 1 - row);
               ky < std::min<std::int64_t>(3, height + 1 - row); ++ky) {
            for (std::int64_t kx = std::max<std::int64_t>(0, 1 - column);
                 kx < std::min<std::int64_t>(3, width + 1 - column); ++kx) {
              sum += x[n][c][row + ky - 1][column + kx - 1] * w[o][c][ky][kx];
            }
          }
        }
        y[n][o][row][column] = sum;
      }
    }
  }
  return output;
}

/// The three passes of plain_convolution: the weights' gradient is the convolution of the input
/// with the gradient, channels and images exchanged.
Passes plain_passes(const Operands& o) {
  const Tensor transposed = o.weight.flip({2, 3}).transpose(0, 1);
  Tensor grad_weight = torch::zeros_like(o.weight);
  const Tensor input = at::constant_pad_nd(o.input.contiguous(), {1, 1, 1, 1});
  const Tensor gradient = o.grad_output.contiguous();
  const auto x = input.accessor<float, 4>(), g = gradient.accessor<float, 4>();
  auto w = grad_weight.accessor<float, 4>();
  for (std::int64_t out = 0; out < grad_weight.size(0); ++out) {
    for (std::int64_t in = 0; in < grad_weight.size(1); ++in) {
      for (std::int64_t tap = 0; tap < 9; ++tap) {
        float sum = 0;
        for (std::int64_t n = 0; n < gradient.size(0); ++n) {
          for (std::int64_t row = 0; row < gradient.size(2); ++row) {
            for (std::int64_t column = 0; column < gradient.size(3); ++column) {
              sum += g[n][out][row][column] * x[n][in][row + tap / 3][column + tap % 3];
            }
          }
        }
        w[out][in][tap / 3][tap % 3] = sum;
      }
    }
  }
  return {plain_convolution(o.input, o.weight), plain_convolution(o.grad_output, transposed),
          grad_weight};
}

double relative_error(const Tensor& actual, const Tensor& expected) {
  return ((actual.to(torch::kDouble) - expected).norm() / expected.norm()).item<double>();
}

/// The bound: 3 times the error of a plain f32 convolution. The floor is the rounding of a handful
/// of operations, where a sum of few products can be exact.
void expect_near(const Passes& actual, const Passes& f32, const Passes& f64) {
  constexpr double kFloor = 3e-7;
  const auto check = [&](const char* pass, const Tensor& a, const Tensor& plain, const Tensor& e) {
    ASSERT_EQ(a.sizes(), e.sizes());
    EXPECT_LT(relative_error(a, e), kFloor + 3 * relative_error(plain, e)) << pass;
  };
  check("forward", actual.output, f32.output, f64.output);
  check("backward data", actual.grad_input, f32.grad_input, f64.grad_input);
  check("backward weight", actual.grad_weight, f32.grad_weight, f64.grad_weight);
}

void expect_reference(const ConvShape& s, ConvAlgorithm algorithm) {
  torch::manual_seed(7);
  const Operands operands = random_operands(s);
  const Passes plain = algorithm == ConvAlgorithm::kWinograd
                           ? plain_passes(operands)
                           : reference(s, operands, torch::kFloat);
  const Passes f64 = reference(s, operands, torch::kDouble);
  for (const ConvKernels* build : builds()) {
    SCOPED_TRACE(::testing::Message()
                 << build->name << " " << conv_algorithm_name(algorithm) << " " << s.images << "x"
                 << s.in_channels << "x" << s.input[0] << "x" << s.input[1] << " to "
                 << s.out_channels << ", kernel " << s.kernel[0] << "x" << s.kernel[1]);
    expect_near(run(*build, s, algorithm, operands), plain, f64);
  }
}

ConvShape square(std::int64_t images,
                 std::int64_t in,
                 std::int64_t out,
                 std::int64_t height,
                 std::int64_t width,
                 std::int64_t kernel,
                 std::int64_t stride) {
  return {.images = images,
          .in_channels = in,
          .out_channels = out,
          .input = {height, width},
          .kernel = {kernel, kernel},
          .stride = {stride, stride},
          .padding = {kernel / 2, kernel / 2}};
}

TEST(ConvKernels, GemmEqualsFloat64ForEveryKernelStrideAndRaggedSize) {
  for (const ConvShape& s :
       {square(1, 64, 64, 9, 13, 1, 1), square(2, 3, 64, 21, 19, 7, 2),
        square(1, 32, 48, 7, 7, 3, 2), square(2, 5, 7, 6, 5, 3, 1), square(1, 33, 65, 10, 4, 1, 2),
        square(3, 1, 1, 1, 1, 1, 1), square(1, 300, 40, 5, 6, 3, 2), square(1, 16, 16, 1, 17, 3, 1),
        square(1, 16, 16, 2, 2, 5, 3), square(1, 1024, 32, 4, 3, 1, 1),
        square(2, 24, 96, 40, 33, 3, 1), square(1, 8, 8, 30, 30, 2, 2),
        // pixels enough for all segments of a weight gradient
        square(1, 8, 24, 130, 97, 3, 1)}) {
    expect_reference(s, ConvAlgorithm::kGemm);
  }
}

TEST(ConvKernels, GemmEqualsFloat64ForUnequalAxesPaddingAndDilation) {
  ConvShape s = square(2, 12, 20, 11, 14, 3, 1);
  s.stride = {2, 1};
  s.padding = {0, 2};
  expect_reference(s, ConvAlgorithm::kGemm);
  s.kernel = {1, 5};
  s.stride = {1, 3};
  expect_reference(s, ConvAlgorithm::kGemm);
  s = square(1, 20, 12, 9, 9, 3, 1);
  s.dilation = {2, 2};
  s.padding = {2, 2};
  expect_reference(s, ConvAlgorithm::kGemm);
  s.dilation = {3, 2};
  s.stride = {2, 2};
  expect_reference(s, ConvAlgorithm::kGemm);
}

TEST(ConvKernels, PixelsThatNoTapReachesGetZeroGradients) {
  // A 1x1 kernel at stride 3 reads every third pixel of every third row.
  const ConvShape s = square(1, 16, 16, 8, 7, 1, 3);
  expect_reference(s, ConvAlgorithm::kGemm);
  const Operands operands = random_operands(s);
  for (const ConvKernels* build : builds()) {
    const Tensor gradient = run(*build, s, ConvAlgorithm::kGemm, operands).grad_input;
    EXPECT_EQ(gradient.select(2, 1).abs().sum().item<float>(), 0.0F);
    EXPECT_EQ(gradient.select(3, 2).abs().sum().item<float>(), 0.0F);
  }
}

TEST(ConvKernels, WinogradEqualsFloat64ForRaggedSizesAndManyTiles) {
  for (const ConvShape& s :
       {square(1, 32, 32, 8, 8, 3, 1), square(2, 16, 48, 13, 13, 3, 1),
        square(1, 64, 16, 1, 1, 3, 1), square(3, 16, 16, 3, 18, 3, 1),
        square(1, 272, 32, 9, 6, 3, 1), square(1, 32, 64, 67, 61, 3, 1),
        square(5, 48, 80, 14, 14, 3, 1),
        // few tiles and many filters, and the same filters with many tiles
        square(1, 272, 144, 19, 20, 3, 1), square(1, 272, 144, 50, 49, 3, 1)}) {
    expect_reference(s, ConvAlgorithm::kWinograd);
  }
}

TEST(ConvKernels, EpilogueAddsBiasAndResidualAndActivates) {
  torch::manual_seed(8);
  // Few tiles, and more than Winograd takes part after part of the filters.
  for (const auto& [algorithm, s] : {std::pair{ConvAlgorithm::kGemm, square(2, 48, 48, 9, 7, 3, 1)},
                                     {ConvAlgorithm::kWinograd, square(2, 48, 80, 9, 7, 3, 1)},
                                     {ConvAlgorithm::kWinograd, square(1, 48, 80, 50, 49, 3, 1)}}) {
    const Operands o = random_operands(s);
    const Tensor bias = torch::randn({s.out_channels}), residual = torch::randn_like(o.grad_output);
    const Tensor sum = at::conv2d(o.input.contiguous(), o.weight, bias, 1, 1) + residual;
    for (const ConvKernels* build : builds()) {
      for (const Activation activation :
           {Activation::kNone, Activation::kRelu, Activation::kLeakyRelu}) {
        Tensor output = at::full_like(o.grad_output, NAN);
        NanScratch scratch;
        cpu::conv_forward(*build, s, algorithm, o.input.data_ptr<float>(),
                          o.weight.data_ptr<float>(),
                          {.bias = bias.data_ptr<float>(),
                           .residual = residual.data_ptr<float>(),
                           .activation = activation,
                           .leaky_slope = 0.1F},
                          output.data_ptr<float>(), scratch.workspace());
        const Tensor expected = activation == Activation::kNone   ? sum
                                : activation == Activation::kRelu ? sum.relu()
                                                                  : at::leaky_relu(sum, 0.1);
        // sums of 432 products of size 1
        EXPECT_LT((output - expected).abs().max().item<float>(), 1e-4F) << build->name;
      }
    }
  }
}

TEST(ConvKernels, EpilogueKeepsNaN) {
  for (const ConvAlgorithm algorithm : {ConvAlgorithm::kGemm, ConvAlgorithm::kWinograd}) {
    const ConvShape s = square(1, 16, 16, 4, 4, 3, 1);
    Operands o = random_operands(s);
    o.input.fill_(NAN);
    for (const Activation activation :
         {Activation::kNone, Activation::kRelu, Activation::kLeakyRelu}) {
      for (const ConvKernels* build : builds()) {
        Tensor output = at::zeros_like(o.grad_output);
        NanScratch scratch;
        cpu::conv_forward(*build, s, algorithm, o.input.data_ptr<float>(),
                          o.weight.data_ptr<float>(), {.activation = activation},
                          output.data_ptr<float>(), scratch.workspace());
        EXPECT_TRUE(output.isnan().all().item<bool>());
      }
    }
  }
}

TEST(ConvKernelsProperty, AnyNumberOfThreadsGivesTheSameBits) {
  torch::manual_seed(9);
  const int before = at::get_num_threads();
  for (const auto& [shape, algorithm] :
       {std::pair{square(2, 48, 64, 37, 29, 3, 2), ConvAlgorithm::kGemm},
        std::pair{square(1, 300, 64, 5, 4, 1, 1), ConvAlgorithm::kGemm},
        // many segments of a weight gradient; two, with groups of columns and of rows
        std::pair{square(1, 8, 24, 130, 97, 3, 1), ConvAlgorithm::kGemm},
        std::pair{square(1, 48, 64, 45, 45, 3, 1), ConvAlgorithm::kGemm},
        std::pair{square(1, 32, 96, 45, 45, 1, 1), ConvAlgorithm::kGemm},
        std::pair{square(2, 32, 48, 61, 70, 3, 1), ConvAlgorithm::kWinograd},
        std::pair{square(1, 16, 64, 9, 9, 3, 1), ConvAlgorithm::kWinograd},
        std::pair{square(1, 272, 144, 19, 20, 3, 1), ConvAlgorithm::kWinograd},
        // so many tiles that every thread has blocks of its own
        std::pair{square(1, 16, 16, 217, 211, 3, 1), ConvAlgorithm::kWinograd}}) {
    const Operands operands = random_operands(shape);
    for (const ConvKernels* build : builds()) {
      at::set_num_threads(1);
      const Passes one = run(*build, shape, algorithm, operands);
      for (const int threads : {2, 3, 7}) {
        at::set_num_threads(threads);
        const Passes many = run(*build, shape, algorithm, operands);
        EXPECT_TRUE(one.output.equal(many.output)) << threads;
        EXPECT_TRUE(one.grad_input.equal(many.grad_input)) << threads;
        EXPECT_TRUE(one.grad_weight.equal(many.grad_weight)) << threads;
      }
    }
  }
  at::set_num_threads(before);
}

TEST(ConvKernels, ActivationBackwardMasksAndSumsTheBias) {
  torch::manual_seed(10);
  const Tensor output = torch::randn({1100, 21}), gradient = torch::randn({1100, 21});
  for (const ConvKernels* build : builds()) {
    for (const Activation activation :
         {Activation::kNone, Activation::kRelu, Activation::kLeakyRelu}) {
      Tensor result = activation == Activation::kNone ? gradient : at::full_like(gradient, NAN);
      Tensor bias = at::full({21}, NAN);
      NanScratch scratch;
      cpu::activation_backward(*build, activation, 0.25F, 1100, 21, output.data_ptr<float>(),
                               gradient.data_ptr<float>(), result.data_ptr<float>(),
                               bias.data_ptr<float>(), scratch.workspace());
      const Tensor factor = activation == Activation::kNone   ? torch::ones_like(output)
                            : activation == Activation::kRelu ? (output > 0).to(torch::kFloat)
                                                              : at::where(output > 0, 1.0F, 0.25F);
      EXPECT_TRUE(result.equal(gradient * factor)) << build->name;
      EXPECT_LT(relative_error(bias, (gradient * factor).to(torch::kDouble).sum(0)), 1e-6);
    }
  }
}

TEST(ConvKernels, ScaleGradientIsTheProductAndTheSum) {
  torch::manual_seed(14);
  for (const std::int64_t count : {1, 7, 16, 64, 65, 4608}) {
    const Tensor gradient = torch::randn({count}), weight = torch::randn({count});
    const Tensor products = gradient.to(torch::kDouble) * weight.to(torch::kDouble);
    for (const ConvKernels* build : builds()) {
      Tensor scaled = at::full({count}, NAN);
      const float sum = build->scale_gradient(gradient.data_ptr<float>(), weight.data_ptr<float>(),
                                              count, -1.5F, scaled.data_ptr<float>());
      EXPECT_TRUE(scaled.equal(gradient * -1.5F)) << build->name;
      EXPECT_NEAR(sum, products.sum().item<double>(), 1e-6 * products.abs().sum().item<double>());
    }
  }
}

TEST(ConvKernels, AnInfiniteGradientAtADeadReluIsZero) {
  const Tensor output = torch::tensor({0.0F, 1.0F}), gradient = torch::tensor({INFINITY, 2.0F});
  for (const ConvKernels* build : builds()) {
    Tensor result = at::full_like(gradient, NAN);
    NanScratch scratch;
    cpu::activation_backward(*build, Activation::kRelu, 0, 1, 2, output.data_ptr<float>(),
                             gradient.data_ptr<float>(), result.data_ptr<float>(), nullptr,
                             scratch.workspace());
    EXPECT_TRUE(result.equal(torch::tensor({0.0F, 2.0F}))) << build->name;
  }
}

TEST(ConvPlan, ChoosesByShapeAlone) {
  if (cpu::conv_kernels() == nullptr) {
    GTEST_SKIP() << "the processor has no AVX2 and FMA";
  }
  EXPECT_EQ(cpu::plan_conv(square(1, 256, 256, 200, 336, 3, 1)).forward, ConvAlgorithm::kWinograd);
  EXPECT_EQ(cpu::plan_conv(square(1, 256, 256, 200, 336, 1, 1)).forward, ConvAlgorithm::kGemm);
  EXPECT_EQ(cpu::plan_conv(square(1, 256, 256, 200, 336, 3, 2)).forward, ConvAlgorithm::kGemm);
  EXPECT_EQ(cpu::plan_conv(square(1, 3, 64, 200, 336, 3, 1)).forward, ConvAlgorithm::kGemm);
  EXPECT_EQ(cpu::plan_conv(square(1, 512, 512, 2, 2, 3, 1)).forward, ConvAlgorithm::kGemm);
  ConvShape grouped = square(1, 64, 64, 20, 20, 3, 1);
  grouped.groups = 2;
  EXPECT_EQ(cpu::plan_conv(grouped).forward, ConvAlgorithm::kAten);
  EXPECT_EQ(cpu::plan_conv(square(1, 64, 64, 20, 20, 3, 1), nullptr).forward, ConvAlgorithm::kAten);
}

}  // namespace
}  // namespace detforge
