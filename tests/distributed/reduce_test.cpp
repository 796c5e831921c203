#include "detforge/distributed/reduce.h"

#include <cmath>
#include <numeric>

#include <gtest/gtest.h>
#include <torch/types.h>

#include "detforge/core/files.h"
#include "detforge/distributed/gradient_reducer.h"
#include "detforge/distributed/power_sgd.h"
#include "detforge/distributed/single_process.h"
#include "distributed/ranks.h"

namespace detforge {
namespace {

Tensor random_flat(std::int64_t size, std::uint64_t seed) {
  torch::manual_seed(seed);
  return torch::randn({size}) * torch::exp2(torch::randint(-20, 20, {size}).to(at::kFloat));
}

/// T(s, o) as reduce.h writes it.
Tensor naive_tree(const std::vector<Tensor>& leaves, std::size_t stride, std::size_t offset) {
  if (offset + stride >= leaves.size()) {
    return leaves[offset];
  }
  return naive_tree(leaves, 2 * stride, offset) + naive_tree(leaves, 2 * stride, offset + stride);
}

TEST(TreeSum, IsTheTreeOfItsDefinition) {
  for (std::int64_t n = 1; n <= 13; ++n) {
    std::vector<Tensor> leaves;
    for (std::int64_t i = 0; i < n; ++i) {
      leaves.push_back(random_flat(50, static_cast<std::uint64_t>(i)));
    }
    TreeSum sum(n);
    std::vector<std::int64_t> order = TreeSum::order_of(n);
    for (const std::int64_t i : order) {
      sum.push(leaves[static_cast<std::size_t>(i)]);
    }
    EXPECT_TRUE(torch::equal(sum.total(), naive_tree(leaves, 1, 0))) << n;
    std::sort(order.begin(), order.end());
    std::vector<std::int64_t> all(static_cast<std::size_t>(n));
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(order, all);
  }
}

TEST(TreeSum, RanksWithPartsGiveTheBitsOfOneProcess) {
  constexpr std::int64_t kTerms = 11, kSize = 37;
  std::vector<Tensor> leaves;
  for (std::int64_t i = 0; i < kTerms; ++i) {
    leaves.push_back(random_flat(kSize, static_cast<std::uint64_t>(i)));
  }
  const Tensor whole = naive_tree(leaves, 1, 0);
  for (const std::int64_t world : {1, 2, 4, 8}) {
    test::Ranks ranks(world);
    EXPECT_EQ(ranks.run([&](Communicator& communicator) {
      std::vector<Tensor> own;
      for (std::int64_t i = communicator.rank(); i < kTerms; i += world) {
        own.push_back(leaves[static_cast<std::size_t>(i)]);
      }
      const auto count = static_cast<std::int64_t>(own.size());
      TreeSum sum(count);
      for (const std::int64_t i : TreeSum::order_of(count)) {
        sum.push(own[static_cast<std::size_t>(i)]);
      }
      Tensor flat = sum.total().clone();
      tree_all_reduce_(communicator, flat);
      EXPECT_TRUE(torch::equal(flat, whole));
    }),
              0)
        << world << ranks.log(1);
  }
}

TEST(CompressedSum, WhatIsRoundedAwayComesWithTheNextStep) {
  for (const Compression compression : {Compression::kFp16, Compression::kBf16}) {
    test::Ranks ranks(3);
    EXPECT_EQ(ranks.run([&](Communicator& communicator) {
      constexpr std::int64_t kSize = 1001;
      CompressedSum sum(compression, kSize);
      Tensor total = torch::zeros({kSize}, at::kDouble), sent = total.clone();
      // The same gradients again and again, far from what f16 could hold: only what is late
      // differs.
      const Tensor own = random_flat(kSize, 5) * (1.0 + static_cast<double>(communicator.rank()));
      const Tensor all = own / (1.0 + static_cast<double>(communicator.rank())) * 6;
      double first_error = 0;
      for (int step = 1; step <= 64; ++step) {
        // Powers of two: every step rounds alike. The feedback must not follow the loss scale.
        const double loss_scale = std::exp2(step % 7);
        Tensor flat = own * loss_scale;
        sum.all_reduce_(communicator, flat, loss_scale);
        total += all.to(at::kDouble);
        sent += flat.to(at::kDouble) / loss_scale;
        const double error = ((sent - total).norm() / total.norm()).item<double>();
        if (step == 1) {
          first_error = error;
          EXPECT_LT(error, compression == Compression::kFp16 ? 1e-3 : 1e-2);
          EXPECT_GT(error, 0);
        }
      }
      // Without feedback the error would stay what it was in the first step.
      EXPECT_LT(((sent - total).norm() / total.norm()).item<double>(), first_error / 16);
      CompressedSum other(compression, kSize);
      Tensor bad = torch::full({kSize}, INFINITY);
      other.all_reduce_(communicator, bad, 1);
      EXPECT_FALSE(bad.isfinite().any().item<bool>());
      Tensor good = torch::ones({kSize});
      other.all_reduce_(communicator, good, 1);
      EXPECT_NEAR(good[0].item<double>(), 3, 0.01);  // the overflow is forgotten
    }),
              0)
        << ranks.log(1);
  }
}

TEST(CompressedSum, FewerValuesThanRanksAndOneOverflowThatKeepsWhatIsLate) {
  test::Ranks ranks(3);
  EXPECT_EQ(ranks.run([](Communicator& communicator) {
    for (const std::int64_t size : {1, 2, 4}) {
      CompressedSum sum(Compression::kFp16, size);
      // 1 + 2^-12 loses its small part in f16: next time it is there, in spite of the overflow.
      const Tensor value = torch::full({size}, 1 + std::exp2(-12));
      Tensor flat = value.clone();
      sum.all_reduce_(communicator, flat, 1);
      EXPECT_TRUE(torch::equal(flat, torch::full({size}, 3.0F))) << size;
      flat = value.clone();
      if (communicator.rank() == 1) {
        flat[0] = INFINITY;
      }
      sum.all_reduce_(communicator, flat, 1);
      EXPECT_FALSE(flat.isfinite().all().item<bool>()) << size;
      flat = torch::zeros({size});
      sum.all_reduce_(communicator, flat, 1);
      EXPECT_TRUE(torch::equal(flat, torch::full({size}, 3 * std::exp2(-12)))) << size << flat;
    }
  }),
            0)
      << ranks.log(1) << ranks.log(2);
}

TEST(PowerSgd, SendsLowRankGradientsWholeAndOthersInTime) {
  test::Ranks ranks(3);
  EXPECT_EQ(ranks.run([](Communicator& communicator) {
    const std::vector<std::vector<std::int64_t>> shapes{{40, 3, 3, 10}, {7}, {50, 60}};
    const double share = static_cast<double>(communicator.rank()) + 1;  // 1 + 2 + 3 = 6
    PowerSgdSum sum(shapes, 4);
    torch::manual_seed(8);
    const Tensor low = torch::cat({torch::randn({40, 2}).matmul(torch::randn({2, 90})).view({-1}),
                                   torch::randn({7}), torch::zeros({3000})});
    Tensor flat = low * share * 1024;
    std::int64_t bytes = sum.all_reduce_(communicator, flat, 1024);
    EXPECT_EQ(bytes, 4 * (4 * (40 + 90) + 7 + 4 * (50 + 60)));
    EXPECT_TRUE(torch::allclose(flat / 1024, low * 6, 1e-3, 1e-3));  // of rank 2: nothing is lost
    // Of full rank: the sum of what was sent follows the sum of the gradients.
    PowerSgdSum late(shapes, 4);
    const Tensor full = torch::randn({low.numel()});
    Tensor sent = torch::zeros_like(full);
    double first = 0, last = 0;
    constexpr int kSteps = 200;
    for (int step = 1; step <= kSteps; ++step) {
      flat = full * share;
      late.all_reduce_(communicator, flat, 1);
      sent += flat;
      last = ((sent / step - full * 6).norm() / (full * 6).norm()).item<double>();
      first = step == 1 ? last : first;
    }
    EXPECT_GT(first, 0.5);
    EXPECT_LT(last, 0.12);
    flat = torch::full_like(full, INFINITY);
    late.all_reduce_(communicator, flat, 1);
    EXPECT_FALSE(flat.isfinite().any().item<bool>());
  }),
            0)
      << ranks.log(1);
}

/// A chain of layers of different sizes and types, one of which gets no gradient.
struct Layers {
  std::vector<std::pair<std::string, Tensor>> parameters;
  Layers() {
    torch::manual_seed(4);
    for (int i = 0; i < 6; ++i) {
      parameters.emplace_back("layer" + std::to_string(i),
                              torch::randn({40 + i, 30}).requires_grad_());
    }
    parameters.emplace_back("half", torch::ones({64}, at::kHalf).requires_grad_());
    parameters.emplace_back("unused", torch::ones({9}).requires_grad_());
  }
  Tensor loss(double factor) const {
    Tensor sum = torch::zeros({});
    for (const auto& [name, parameter] : parameters) {
      if (name != "unused") {
        sum = sum + (parameter.to(at::kFloat) * factor).square().sum();
      }
    }
    return sum;
  }
};

void check_reducer(Communicator& communicator, const GradientReducerOptions& options, double rtol) {
  Layers layers;
  GradientReducer reducer(layers.parameters, communicator, options);
  const double ranks = static_cast<double>(communicator.world_size());
  double squares = 0;
  for (double rank = 0; rank < ranks; ++rank) {
    squares += (rank + 1) * (rank + 1);
  }
  for (int step = 0; step < 3; ++step) {  // before and after the order is learnt
    for (auto& [name, parameter] : layers.parameters) {
      parameter.mutable_grad() = Tensor();
    }
    const double factor = static_cast<double>(communicator.rank()) + 1;
    layers.loss(factor).backward();  // a micro-step: stays on its rank
    reducer.start();
    layers.loss(factor).backward();
    const ReductionTimes times = reducer.finish();
    EXPECT_GT(times.bytes, 0);
    for (const auto& [name, parameter] : layers.parameters) {
      const Tensor expected =
          name == "unused" ? torch::zeros_like(parameter) : (4 * squares * parameter).detach();
      ASSERT_TRUE(parameter.grad().defined()) << name;
      EXPECT_EQ(parameter.grad().scalar_type(), parameter.scalar_type());
      EXPECT_TRUE(
          torch::allclose(parameter.grad().to(at::kFloat), expected.to(at::kFloat), rtol, rtol))
          << name << " in step " << step;
    }
  }
}

TEST(GradientReducer, SumsWhateverTheBuckets) {
  test::Ranks ranks(3);
  EXPECT_EQ(ranks.run([](Communicator& communicator) {
    for (const std::int64_t bytes :
         {std::int64_t{1}, std::int64_t{10'000}, std::int64_t{8 << 20}}) {
      check_reducer(communicator, {.bucket_bytes = bytes}, 2e-3);
    }
    check_reducer(communicator, {.compression = Compression::kFp16}, 3e-3);
    check_reducer(communicator, {.compression = Compression::kBf16}, 2e-2);
    check_reducer(communicator, {.is_deterministic = true}, 2e-3);
  }),
            0)
      << ranks.log(1);
}

TEST(GradientReducer, CompressionHalvesTheBytes) {
  test::Ranks ranks(2);
  EXPECT_EQ(ranks.run([](Communicator& communicator) {
    const auto bytes_with = [&](Compression compression) {
      Tensor weight = torch::ones({100'000}).requires_grad_();
      GradientReducer reducer({{"weight", weight}}, communicator, {.compression = compression});
      std::int64_t bytes = 0;
      for (int step = 0; step < 2; ++step) {  // the first, in which the order is learnt, is whole
        weight.mutable_grad() = Tensor();
        reducer.start();
        weight.sum().backward();
        bytes = reducer.finish().bytes;
      }
      return bytes;
    };
    EXPECT_EQ(bytes_with(Compression::kNone), 400'000);
    EXPECT_EQ(bytes_with(Compression::kFp16), 200'000);
  }),
            0)
      << ranks.log(1);
}

// F58, F59: a rank without any gradient of a part of the model, and one that never runs backward.
TEST(FieldReportF58, RanksWithoutGradientsHoldNobodyUp) {
  test::Ranks ranks(3);
  EXPECT_EQ(ranks.run([](Communicator& communicator) {
    Tensor mask_head = torch::ones({50}).requires_grad_(),
           box_head = torch::ones({70}).requires_grad_();
    GradientReducer reducer({{"box", box_head}, {"mask", mask_head}}, communicator,
                            {.bucket_bytes = 1});
    for (int step = 0; step < 4; ++step) {
      box_head.mutable_grad() = Tensor();
      mask_head.mutable_grad() = Tensor();
      reducer.start();
      if (communicator.rank() == 0) {
        (box_head.sum() + 2 * mask_head.sum()).backward();
      } else if (communicator.rank() == 1) {
        box_head.sum().backward();
      }
      reducer.finish();
      EXPECT_EQ(box_head.grad()[0].item<float>(), 2.0F);
      EXPECT_EQ(mask_head.grad()[0].item<float>(), 2.0F);
    }
  }),
            0)
      << ranks.log(1);
}

}  // namespace
}  // namespace detforge
