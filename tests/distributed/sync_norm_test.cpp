#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/types.h>

#include "detforge/ops/sync_batch_norm.h"
#include "distributed/ranks.h"

namespace detforge {
namespace {

struct Outcome {
  Tensor output, mean, var, of_input, of_weight, of_bias;
};

/// Of images [first, last) of four, with the gradient of the whole batch's sum of squares.
Outcome norm_of(const AllReduce& all_reduce,
                std::int64_t first,
                std::int64_t last,
                at::ScalarType type) {
  torch::manual_seed(2);
  const Tensor all = torch::randn({4, 5, 3, 7}) * 2 + 1;
  const Tensor input = all.slice(0, first, last).to(type).clone().requires_grad_();
  const Tensor weight = torch::rand({5}).requires_grad_(), bias = torch::rand({5}).requires_grad_();
  Outcome o{.mean = torch::zeros({5}), .var = torch::ones({5})};
  const BatchNormOptions options{.momentum = 0.3, .activation = Activation::kLeakyRelu};
  o.output = all_reduce ? sync_batch_norm(input, weight, bias, o.mean, o.var, options, all_reduce)
                        : batch_norm(input, weight, bias, o.mean, o.var, options);
  const auto gradients =
      torch::autograd::grad({o.output.to(at::kFloat).square().sum()}, {input, weight, bias});
  o.of_input = gradients[0];
  o.of_weight = gradients[1];
  o.of_bias = gradients[2];
  return o;
}

// Ranks of 3, 0 and 1 images against batch_norm of all four.
TEST(SyncBatchNorm, RanksOfAnySizeGiveTheNormOfTheWholeBatch) {
  for (const at::ScalarType type : {at::kFloat, at::kHalf}) {
    const double tolerance = type == at::kFloat ? 1e-4 : 2e-2;
    const Outcome whole = norm_of({}, 0, 4, type);
    test::Ranks ranks(3);
    EXPECT_EQ(ranks.run([&](Communicator& communicator) {
      constexpr std::int64_t kFirst[] = {0, 3, 3, 4};
      const auto first = kFirst[communicator.rank()], last = kFirst[communicator.rank() + 1];
      const AllReduce all_reduce = [&](Tensor& sums) { communicator.all_reduce_sum_(sums); };
      Outcome own = norm_of(all_reduce, first, last, type);
      const auto is_close = [&](const Tensor& a, const Tensor& b) {
        return torch::allclose(a.to(at::kFloat), b.to(at::kFloat), tolerance, tolerance);
      };
      EXPECT_TRUE(is_close(own.output, whole.output.slice(0, first, last)));
      EXPECT_TRUE(is_close(own.of_input, whole.of_input.slice(0, first, last)));
      EXPECT_TRUE(is_close(own.mean, whole.mean));
      EXPECT_TRUE(is_close(own.var, whole.var));
      communicator.all_reduce_sum_(own.of_weight);  // as a reducer does
      communicator.all_reduce_sum_(own.of_bias);
      EXPECT_TRUE(is_close(own.of_weight, whole.of_weight));
      EXPECT_TRUE(is_close(own.of_bias, whole.of_bias));
    }),
              0)
        << ranks.log(1) << ranks.log(2);
  }
}

}  // namespace
}  // namespace detforge
