#include "detforge/ops/gather_patches.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/types.h>

#include "detforge/core/error.h"
#include "detforge/ops/conv2d.h"
#include "support/torch/tensors.h"

namespace detforge {
namespace {

using test::expect_close;

Tensor cells_of(const std::vector<std::int64_t>& cells) {
  return torch::tensor(cells, torch::kLong);
}

TEST(GatherPatches, CornerAndCentreByHand) {
  // 0 1 2
  // 3 4 5
  const Tensor map = torch::arange(6, torch::kFloat).view({1, 1, 2, 3});
  const Tensor expected = torch::tensor({{0.0F, 0.0F, 0.0F, 0.0F, 0.0F, 1.0F, 0.0F, 3.0F, 4.0F},
                                         {0.0F, 1.0F, 2.0F, 3.0F, 4.0F, 5.0F, 0.0F, 0.0F, 0.0F}});
  EXPECT_TRUE(expect_close(gather_patches(map, cells_of({0, 4})), expected, {}));
}

TEST(GatherPatches, GradientCountsTheChosenPatchesThatHoldACell) {
  const Tensor map = torch::zeros({1, 1, 2, 3}).requires_grad_();
  gather_patches(map, cells_of({0, 5, 0})).sum().backward();
  const Tensor expected = torch::tensor({{2.0F, 3.0F, 1.0F}, {2.0F, 3.0F, 1.0F}});
  EXPECT_TRUE(expect_close(map.grad(), expected.view({1, 1, 2, 3}), {}));
}

TEST(GatherPatches, NoCellsGiveAnEmptyResultAndZeroGradient) {
  const Tensor map = torch::ones({2, 4, 5, 6}).requires_grad_();
  const Tensor patches = gather_patches(map, cells_of({}));
  EXPECT_EQ(patches.sizes(), (std::vector<std::int64_t>{0, 36}));
  patches.sum().backward();
  EXPECT_TRUE(expect_close(map.grad(), torch::zeros_like(map), {}));
}

TEST(GatherPatches, RefusesCellsOutsideTheMaps) {
  const Tensor map = torch::zeros({2, 1, 2, 3});
  EXPECT_THROW(gather_patches(map, cells_of({12})), Error);
  EXPECT_THROW(gather_patches(map, cells_of({-1})), Error);
  EXPECT_THROW(gather_patches(map.to(torch::kDouble), cells_of({0})), Error);
  EXPECT_THROW(gather_patches(map, torch::zeros({1})), Error);
}

TEST(GatherPatchesProperty, LinearOnAllPatchesIsTheConvolution) {
  torch::manual_seed(1);
  for (const auto& [height, width] : {std::pair{5, 7}, {1, 4}, {3, 1}, {1, 1}}) {
    const Tensor map = torch::randn({2, 3, height, width}).requires_grad_();
    const Tensor weight = torch::randn({4, 3, 3, 3}).requires_grad_();
    const Tensor bias = torch::randn({4}).requires_grad_();
    const Tensor order = torch::randperm(2 * height * width);
    const Tensor sparse = linear(gather_patches(map, order), weight.flatten(1), bias);
    const Tensor dense = conv2d(map, weight, bias, {.padding = {1, 1}})
                             .permute({0, 2, 3, 1})
                             .reshape({-1, 4})
                             .index_select(0, order);
    EXPECT_TRUE(expect_close(sparse, dense, {.rtol = 1e-5, .atol = 1e-5}));
    const Tensor grad = torch::randn_like(dense);
    const auto actual = torch::autograd::grad({sparse}, {map, weight, bias}, {grad});
    const auto expected = torch::autograd::grad({dense}, {map, weight, bias}, {grad});
    for (std::size_t i = 0; i < actual.size(); ++i) {
      EXPECT_TRUE(test::expect_close_l2(actual[i], expected[i], 1e-5));
    }
  }
}

}  // namespace
}  // namespace detforge
