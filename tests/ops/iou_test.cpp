#include "detforge/ops/iou.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "detforge/core/error.h"
#include "detforge/ops/cpu/iou_kernel.h"
#include "support/test_data.h"
#include "support/torch/naive_ops.h"
#include "support/torch/tensors.h"

namespace detforge {
namespace {

using test::expect_close;

Tensor random_boxes(std::int64_t count, double extent) {
  const Tensor corner = torch::rand({count, 2}) * extent;
  return torch::cat({corner, corner + torch::rand({count, 2}) * 60}, 1);
}

TEST(PairwiseIou, ByHand) {
  // 10x10 against: itself 1; half of it 50/100; a shift by 2: 80/120; touching: 0; inside 4x5:
  // 20/100.
  const Tensor a = torch::tensor({0.F, 0.F, 10.F, 10.F}).view({1, 4});
  const Tensor b = torch::tensor({0.F,  0.F,  10.F, 10.F, 0.F,  0.F,  10.F, 5.F, 2.F, 0.F,
                                  12.F, 10.F, 10.F, 0.F,  20.F, 10.F, 1.F,  1.F, 5.F, 6.F})
                       .view({5, 4});
  EXPECT_TRUE(expect_close(pairwise_iou(a, b),
                           torch::tensor({1.0, 0.5, 2.0 / 3, 0.0, 0.2}).view({1, 5}),
                           {.rtol = 1e-6}));
  EXPECT_TRUE(expect_close(box_area(b), torch::tensor({100.F, 50.F, 100.F, 100.F, 20.F}), {}));
}

TEST(PairwiseIou, EmptySidesGiveEmptyMatrices) {
  EXPECT_EQ(pairwise_iou(torch::empty({0, 4}), torch::ones({3, 4})).sizes(),
            (std::vector<std::int64_t>{0, 3}));
  EXPECT_EQ(pairwise_iou(torch::ones({3, 4}), torch::empty({0, 4})).sizes(),
            (std::vector<std::int64_t>{3, 0}));
  EXPECT_EQ(box_area(torch::empty({0, 4})).numel(), 0);
}

TEST(PairwiseIou, UndefinedPairsAreZero) {
  const Tensor odd =
      torch::tensor({5.F, 5.F, 5.F, 5.F, 8.F,      8.F, 2.F,    2.F,    NAN,   0.F,
                     9.F, 9.F, 0.F, 0.F, INFINITY, 9.F, -3e38F, -3e38F, 3e38F, 3e38F})
          .view({5, 4});
  EXPECT_TRUE(expect_close(pairwise_iou(odd, odd), torch::zeros({5, 5}), {}));
}

TEST(PairwiseIou, RefusesWrongShapes) {
  EXPECT_THROW(pairwise_iou(torch::ones({2, 5}), torch::ones({2, 4})), Error);
  EXPECT_THROW(box_area(torch::ones({4})), Error);
}

TEST(PairwiseIouProperty, EqualsNaiveLoopsInBothBuilds) {
  torch::manual_seed(1);
  for (const auto& [n, m] :
       std::vector<std::pair<std::int64_t, std::int64_t>>{{1, 1}, {7, 1100}, {700, 9}, {50, 513}}) {
    const Tensor a = random_boxes(n, 100), b = random_boxes(m, 100);
    const Tensor actual = pairwise_iou(a, b);
    // Corners near 160 make widths exact to 1e-5: small boxes lose digits in the difference of
    // corners.
    EXPECT_TRUE(expect_close(actual, test::naive_pairwise_iou(a, b), {.rtol = 1e-4, .atol = 1e-6}));
    Tensor portable = torch::empty_like(actual);
    cpu::pairwise_iou(a.data_ptr<float>(), static_cast<std::size_t>(n), b.data_ptr<float>(),
                      static_cast<std::size_t>(m), portable.data_ptr<float>(),
                      cpu::KernelBuild::kPortable);
    EXPECT_TRUE(torch::equal(actual, portable));
  }
}

TEST(PairwiseIouProperty, IsSymmetricAndBetweenZeroAndOne) {
  torch::manual_seed(2);
  const Tensor a = random_boxes(80, 50), b = random_boxes(90, 50);
  const Tensor iou = pairwise_iou(a, b);
  EXPECT_TRUE(torch::equal(iou, pairwise_iou(b, a).t()));
  EXPECT_GE(iou.min().item<float>(), 0.0F);
  EXPECT_LE(iou.max().item<float>(), 1.0F);
  EXPECT_TRUE(expect_close(pairwise_iou(a, a).diagonal(), torch::ones({80}), {}));
}

TEST(BestIouProperty, IsWhatTheMatrixSaysInBothBuilds) {
  torch::manual_seed(3);
  for (const auto& [n, m] :
       std::vector<std::pair<std::int64_t, std::int64_t>>{{1, 1}, {9, 512}, {30, 1300}}) {
    Tensor gt = random_boxes(n, 100), boxes = random_boxes(m, 100);
    boxes[m / 2].fill_(NAN);
    const Tensor iou = pairwise_iou(gt, boxes);
    const BestIou best = best_iou(gt, boxes);
    const auto [of_box, index] = iou.max(0);
    const Tensor of_gt = std::get<0>(iou.max(1));
    EXPECT_TRUE(torch::equal(best.iou, of_box));
    EXPECT_TRUE(torch::equal(best.gt_index, index));
    EXPECT_TRUE(torch::equal(best.highest, of_gt));
    const Tensor is_highest = iou.eq(of_gt.unsqueeze(1)).logical_and(iou > 0).any(0);
    EXPECT_TRUE(torch::equal(best.is_highest.to(torch::kBool), is_highest));
    const auto portable = [&] {
      BestIou result{torch::empty_like(best.iou), torch::empty_like(best.gt_index),
                     torch::empty_like(best.highest), torch::empty_like(best.is_highest)};
      cpu::best_iou(gt.data_ptr<float>(), static_cast<std::size_t>(n), boxes.data_ptr<float>(),
                    static_cast<std::size_t>(m),
                    {result.iou.data_ptr<float>(), result.gt_index.data_ptr<std::int64_t>(),
                     result.highest.data_ptr<float>(), result.is_highest.data_ptr<std::uint8_t>()},
                    cpu::KernelBuild::kPortable);
      return result;
    }();
    EXPECT_TRUE(torch::equal(portable.iou, best.iou));
    EXPECT_TRUE(torch::equal(portable.is_highest, best.is_highest));
  }
}

TEST(BestIou, NothingToCompareWithIsZero) {
  const BestIou without_gt = best_iou(torch::empty({0, 4}), torch::ones({3, 4}));
  EXPECT_TRUE(torch::equal(without_gt.iou, torch::zeros({3})));
  EXPECT_EQ(without_gt.highest.numel(), 0);
  const BestIou without_boxes = best_iou(torch::ones({2, 4}), torch::empty({0, 4}));
  EXPECT_TRUE(torch::equal(without_boxes.highest, torch::zeros({2})));
  EXPECT_EQ(without_boxes.iou.numel(), 0);
}

TEST(PairwiseIouParity, EqualsDetectron2) {
  const auto cases = test::parity_cases(
      [](const nlohmann::json& d) { return d.value("case", "") == "unit_box2box"; });
  ASSERT_FALSE(cases.empty());
  for (const auto& parity : cases) {
    const test::Npz arrays = test::read_npz(parity.folder / "box2box.npz");
    const Tensor iou =
        pairwise_iou(test::to_tensor(arrays.at("src")), test::to_tensor(arrays.at("dst")));
    EXPECT_TRUE(torch::equal(iou, test::to_tensor(arrays.at("iou")))) << parity.name();
    EXPECT_TRUE(torch::equal(box_area(test::to_tensor(arrays.at("clip_out"))),
                             test::to_tensor(arrays.at("clip_area"))));
  }
}

}  // namespace
}  // namespace detforge
