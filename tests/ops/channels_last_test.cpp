// Ops that run their own code on channels-last maps, against what LibTorch and the NCHW code give.
#include <limits>

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/types.h>

#include "detforge/core/error.h"
#include "detforge/ops/cpu/max_pool_kernel.h"
#include "detforge/ops/cpu/pixel_dot_kernel.h"
#include "detforge/ops/gather_patches.h"
#include "detforge/ops/max_pool.h"
#include "detforge/ops/pixel_dot.h"
#include "detforge/ops/upsample.h"
#include "support/torch/tensors.h"

namespace detforge {
namespace {

constexpr auto kLast = at::MemoryFormat::ChannelsLast;

Tensor channels_last(const Tensor& map) {
  return map.detach().clone(kLast).requires_grad_();
}

/// Values with many ties, as behind a ReLU.
Tensor tied_map(at::IntArrayRef sizes) {
  return torch::randint(-3, 4, sizes).to(torch::kFloat);
}

struct PoolCase {
  std::vector<std::int64_t> sizes;
  MaxPoolOptions options;
};

std::vector<PoolCase> pool_cases() {
  return {{{2, 19, 13, 10}, {.kernel = 3, .stride = 2, .padding = 1}},
          {{2, 64, 40, 37}, {.kernel = 3, .stride = 2, .padding = 1}},
          {{1, 5, 7, 9}, {.kernel = 1, .stride = 2}},
          {{1, 3, 6, 6}, {.kernel = 2, .stride = 2}},
          {{2, 8, 9, 11}, {.kernel = 5, .stride = 1, .padding = 2}},
          {{1, 2, 20, 17}, {.kernel = 15, .stride = 1, .padding = 7}},
          {{1, 2, 30, 5}, {.kernel = 3, .stride = 5, .padding = 0}}};
}

TEST(MaxPoolChannelsLast, EqualsLibTorchWithItsGradientAtTies) {
  torch::manual_seed(1);
  for (PoolCase c : pool_cases()) {
    for (const bool relu : {false, true}) {
      c.options.relu = relu;
      const Tensor plain = tied_map(c.sizes).requires_grad_(), map = channels_last(plain);
      const Tensor expected = max_pool(plain, c.options);
      const Tensor actual = max_pool(map, c.options);
      EXPECT_TRUE(actual.is_contiguous(kLast));
      EXPECT_TRUE(torch::equal(actual, expected));
      EXPECT_TRUE(torch::equal(max_pool(map.detach(), c.options), expected));
      const Tensor grad = torch::randn(expected.sizes());
      const Tensor actual_grad = torch::autograd::grad({actual}, {map}, {grad})[0];
      EXPECT_TRUE(actual_grad.is_contiguous(kLast));
      EXPECT_TRUE(torch::equal(actual_grad, torch::autograd::grad({expected}, {plain}, {grad})[0]))
          << "kernel " << c.options.kernel << " relu " << relu;
    }
  }
}

TEST(MaxPoolChannelsLast, NotANumberAndInfinityGoWhereLibTorchSendsThem) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  Tensor plain = torch::zeros({1, 2, 4, 4});
  plain[0][0][1][1] = std::numeric_limits<float>::quiet_NaN();
  plain[0][1].fill_(-kInf);
  plain[0][1][3][3] = kInf;
  const MaxPoolOptions options{.kernel = 3, .stride = 1, .padding = 1};
  const Tensor map = channels_last(plain), reference = plain.clone().requires_grad_();
  const Tensor actual = max_pool(map, options), expected = max_pool(reference, options);
  EXPECT_TRUE(actual.allclose(expected, 0, 0, /*equal_nan=*/true));
  EXPECT_TRUE(torch::equal(torch::autograd::grad({actual.sum()}, {map})[0],
                           torch::autograd::grad({expected.sum()}, {reference})[0]));
}

TEST(MaxPoolChannelsLast, EmptyBatchHasAnEmptyResult) {
  const Tensor map = torch::zeros({0, 3, 8, 8}).contiguous(kLast).requires_grad_();
  const Tensor pooled = max_pool(map, {});
  EXPECT_EQ(pooled.sizes(), (std::vector<std::int64_t>{0, 3, 4, 4}));
  EXPECT_EQ(torch::autograd::grad({pooled.sum()}, {map})[0].sizes(), map.sizes());
}

TEST(MaxPoolChannelsLast, WindowsOfMoreThan255PixelsGoToLibTorch) {
  const Tensor plain = torch::randn({1, 2, 20, 18});
  const MaxPoolOptions options{.kernel = 17, .stride = 1};
  EXPECT_TRUE(torch::equal(max_pool(channels_last(plain), options), max_pool(plain, options)));
}

TEST(MaxPool, RefusesWindowsThatDoNotFit) {
  const Tensor map = torch::zeros({1, 1, 4, 4});
  EXPECT_THROW(max_pool(map, {.kernel = 5}), Error);
  EXPECT_THROW(max_pool(map, {.kernel = 0}), Error);
  EXPECT_THROW(max_pool(map, {.kernel = 2, .stride = 0}), Error);
  EXPECT_THROW(max_pool(map, {.kernel = 2, .padding = 2}), Error);
  EXPECT_THROW(max_pool(map[0], {}), Error);
}

TEST(MaxPoolProperty, BothKernelBuildsGiveTheSameBits) {
  torch::manual_seed(2);
  const cpu::MaxPoolShape shape{.images = 2,
                                .channels = 37,
                                .height = 21,
                                .width = 12,
                                .out_height = 11,
                                .out_width = 6,
                                .kernel = 3,
                                .stride = 2,
                                .padding = 1,
                                .relu = true};
  const Tensor map = tied_map({2 * 37 * 21 * 12}), grad = torch::randn({2 * 37 * 11 * 6});
  const auto run = [&](cpu::KernelBuild build) {
    Tensor pooled = torch::empty_like(grad), grad_map = torch::empty_like(map);
    Tensor positions = torch::empty(grad.sizes(), torch::kByte);
    cpu::max_pool_forward(shape, map.data_ptr<float>(), pooled.data_ptr<float>(),
                          positions.data_ptr<std::uint8_t>(), build);
    cpu::max_pool_backward(shape, grad.data_ptr<float>(), positions.data_ptr<std::uint8_t>(),
                           grad_map.data_ptr<float>(), build);
    return torch::cat({pooled, grad_map, positions.to(torch::kFloat)});
  };
  EXPECT_TRUE(torch::equal(run(cpu::KernelBuild::kPortable), run(cpu::best_kernel_build())));
}

TEST(UpsampleChannelsLast, EqualsLibTorchForwardAndBackward) {
  torch::manual_seed(3);
  for (const auto& sizes : std::vector<std::vector<std::int64_t>>{
           {2, 19, 5, 4}, {1, 64, 3, 7}, {2, 2, 1, 3}, {0, 3, 2, 2}}) {
    const Tensor plain = torch::randn(sizes).requires_grad_(), map = channels_last(plain);
    const Tensor expected = upsample_twice(plain), actual = upsample_twice(map);
    EXPECT_TRUE(actual.numel() == 0 || actual.is_contiguous(kLast));
    EXPECT_TRUE(torch::equal(actual, expected));
    const Tensor grad = torch::randn(expected.sizes());
    const Tensor actual_grad = torch::autograd::grad({actual}, {map}, {grad})[0];
    EXPECT_TRUE(actual.numel() == 0 || actual_grad.is_contiguous(kLast));
    // Four values of about 1: three roundings.
    EXPECT_TRUE(test::expect_close(actual_grad,
                                   torch::autograd::grad({expected}, {plain}, {grad})[0],
                                   {.rtol = 1e-6, .atol = 1e-6}));
  }
}

TEST(UpsampleChannelsLast, AddedToAFinerMapInPlace) {
  torch::manual_seed(4);
  for (const auto layout : {at::MemoryFormat::Contiguous, kLast}) {
    const Tensor source = torch::randn({2, 19, 6, 8}).contiguous(layout).requires_grad_();
    const Tensor coarse = torch::randn({2, 19, 3, 4}).contiguous(layout).requires_grad_();
    const Tensor fine = source * 2;
    const Tensor sum = upsample_add_(fine, coarse);
    EXPECT_EQ(sum.data_ptr(), fine.data_ptr());
    EXPECT_TRUE(sum.is_contiguous(layout));
    EXPECT_TRUE(torch::equal(sum, source * 2 + upsample_twice(coarse)));
    const Tensor grad = torch::randn(sum.sizes());
    const auto grads = torch::autograd::grad({sum}, {source, coarse}, {grad});
    EXPECT_TRUE(grads[1].is_contiguous(layout));
    EXPECT_TRUE(torch::equal(grads[0], grad * 2));
    EXPECT_TRUE(test::expect_close(
        grads[1], torch::autograd::grad({upsample_twice(coarse)}, {coarse}, {grad})[0],
        {.rtol = 1e-6, .atol = 1e-6}));
  }
}

TEST(UpsampleChannelsLast, BeforeTheChannelsOfAFinerMap) {
  torch::manual_seed(5);
  const Tensor coarse = torch::randn({2, 19, 3, 4}).requires_grad_();
  const Tensor fine = torch::randn({2, 5, 6, 8}).requires_grad_();
  const Tensor coarse_last = channels_last(coarse), fine_last = channels_last(fine);
  const Tensor expected = torch::cat({upsample_twice(coarse), fine}, 1);
  const Tensor actual = upsample_concat(coarse_last, fine_last);
  EXPECT_TRUE(actual.is_contiguous(kLast));
  EXPECT_TRUE(torch::equal(actual, expected));
  EXPECT_TRUE(torch::equal(upsample_concat(coarse, fine), expected));
  const Tensor grad = torch::randn(expected.sizes());
  const auto wanted = torch::autograd::grad({expected}, {coarse, fine}, {grad});
  const auto grads = torch::autograd::grad({actual}, {coarse_last, fine_last}, {grad});
  for (std::size_t i = 0; i < grads.size(); ++i) {
    EXPECT_TRUE(grads[i].is_contiguous(kLast));
    EXPECT_TRUE(test::expect_close(grads[i], wanted[i], {.rtol = 1e-6, .atol = 1e-6}));
  }
}

TEST(Upsample, RefusesMapsThatAreNotHalfTheSize) {
  const Tensor fine = torch::zeros({1, 2, 6, 8});
  EXPECT_THROW(upsample_add_(fine, torch::zeros({1, 2, 3, 3})), Error);
  EXPECT_THROW(upsample_add_(fine, torch::zeros({1, 3, 3, 4})), Error);
  EXPECT_THROW(upsample_concat(torch::zeros({2, 2, 3, 4}), fine), Error);
}

TEST(GatherPatchesChannelsLast, EqualsNchwForwardAndBackward) {
  torch::manual_seed(6);
  for (const auto& sizes : std::vector<std::vector<std::int64_t>>{
           {2, 19, 5, 7}, {1, 40, 1, 4}, {1, 3, 3, 1}, {2, 2, 1, 1}}) {
    const Tensor plain = torch::randn(sizes).requires_grad_(), map = channels_last(plain);
    const Tensor cells = torch::randint(0, sizes[0] * sizes[2] * sizes[3], {30}, torch::kLong);
    const Tensor expected = gather_patches(plain, cells), actual = gather_patches(map, cells);
    EXPECT_TRUE(torch::equal(actual, expected));
    const Tensor grad = torch::randn(expected.sizes());
    const Tensor actual_grad = torch::autograd::grad({actual}, {map}, {grad})[0];
    EXPECT_TRUE(actual_grad.is_contiguous(kLast));
    EXPECT_TRUE(torch::equal(actual_grad, torch::autograd::grad({expected}, {plain}, {grad})[0]));
  }
}

TEST(PixelDot, ByHand) {
  const Tensor map = torch::tensor({{1.0F, 2.0F}, {3.0F, 4.0F}}).view({1, 2, 1, 2});
  const Tensor vectors = torch::tensor({{10.0F, 1.0F}});
  // Pixel 0 is (1, 3): 10 + 3; pixel 1 is (2, 4): 20 + 4.
  const Tensor expected = torch::tensor({13.0F, 24.0F}).view({1, 1, 2});
  EXPECT_TRUE(torch::equal(pixel_dot(map, vectors), expected));
  EXPECT_TRUE(torch::equal(pixel_dot(channels_last(map), vectors), expected));
  EXPECT_THROW(pixel_dot(map, torch::ones({1, 3})), Error);
  EXPECT_THROW(pixel_dot(map, torch::ones({2, 2})), Error);
}

TEST(PixelDotChannelsLast, EqualsMatrixProductWithGradients) {
  torch::manual_seed(8);
  for (const auto& sizes : std::vector<std::vector<std::int64_t>>{
           {3, 70, 5, 7}, {2, 256, 4, 4}, {4, 3, 2, 9}, {0, 8, 3, 3}}) {
    const Tensor plain = torch::randn(sizes).requires_grad_(), map = channels_last(plain);
    const Tensor vectors = torch::randn({sizes[0], sizes[1]}).requires_grad_();
    const Tensor expected = pixel_dot(plain, vectors), actual = pixel_dot(map, vectors);
    // Sums of up to 256 products of about 1 in another order.
    EXPECT_TRUE(test::expect_close(actual, expected, {.rtol = 1e-5, .atol = 3e-5}));
    const Tensor grad = torch::randn(expected.sizes());
    const auto wanted = torch::autograd::grad({expected}, {plain, vectors}, {grad});
    const auto grads = torch::autograd::grad({actual}, {map, vectors}, {grad});
    EXPECT_TRUE(map.numel() == 0 || grads[0].is_contiguous(kLast));
    EXPECT_TRUE(test::expect_close(grads[0], wanted[0], {.rtol = 1e-6}));
    EXPECT_TRUE(test::expect_close(grads[1], wanted[1], {.rtol = 1e-5, .atol = 3e-5}));
  }
}

TEST(PixelDotProperty, BothKernelBuildsGiveTheSameBits) {
  torch::manual_seed(9);
  const cpu::PixelDotShape shape{.images = 3, .pixels = 35, .channels = 77};
  const Tensor map = torch::randn({3 * 35 * 77}), vectors = torch::randn({3 * 77});
  const Tensor grad = torch::randn({3 * 35});
  const auto run = [&](cpu::KernelBuild build) {
    Tensor dots = torch::empty_like(grad), grad_map = torch::empty_like(map);
    Tensor grad_vectors = torch::empty_like(vectors);
    cpu::pixel_dot_forward(shape, map.data_ptr<float>(), vectors.data_ptr<float>(),
                           dots.data_ptr<float>(), build);
    cpu::pixel_dot_backward(shape, map.data_ptr<float>(), vectors.data_ptr<float>(),
                            grad.data_ptr<float>(), grad_map.data_ptr<float>(),
                            grad_vectors.data_ptr<float>(), build);
    return torch::cat({dots, grad_map, grad_vectors});
  };
  EXPECT_TRUE(torch::equal(run(cpu::KernelBuild::kPortable), run(cpu::best_kernel_build())));
}

TEST(ChannelsLastProperty, AnyThreadCountGivesTheSameBits) {
  torch::manual_seed(7);
  const Tensor map = channels_last(torch::randn({2, 40, 30, 22}));
  const Tensor fine = channels_last(torch::randn({2, 40, 60, 44}));
  const Tensor cells = torch::randint(0, 2 * 30 * 22, {100}, torch::kLong);
  const Tensor vectors = torch::randn({2, 40}).requires_grad_();
  const auto run = [&](int threads) {
    at::set_num_threads(threads);
    const Tensor pooled = max_pool(map, {.kernel = 3, .stride = 2, .padding = 1});
    const Tensor added = upsample_add_(fine * 1, map), joined = upsample_concat(map, fine);
    const Tensor patches = gather_patches(map, cells);
    const Tensor dots = pixel_dot(map, vectors);
    std::vector<Tensor> results{pooled, added, joined, patches, dots};
    std::vector<Tensor> ones;
    for (const Tensor& result : results) {
      ones.push_back(torch::ones_like(result));
    }
    for (const Tensor& grad : torch::autograd::grad(results, {map, fine, vectors}, ones)) {
      results.push_back(grad);
    }
    return results;
  };
  const int before = at::get_num_threads();
  const auto one = run(1), two = run(2), five = run(5);
  at::set_num_threads(before);
  for (std::size_t i = 0; i < one.size(); ++i) {
    EXPECT_TRUE(torch::equal(one[i], two[i])) << i;
    EXPECT_TRUE(torch::equal(one[i], five[i])) << i;
  }
}

}  // namespace
}  // namespace detforge
