#include "detforge/ops/op_profile.h"

#include <chrono>
#include <thread>

#include <ATen/record_function.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/types.h>

#include "detforge/core/error.h"
#include "detforge/core/tensor.h"
#include "detforge/core/timer.h"

namespace detforge {
namespace {

/// All zeros if there was no such op.
OpTime op_called(const OpProfile& profile, const std::string& name) {
  for (const OpTime& op : profile.by_self_time()) {
    if (op.name == name) {
      return op;
    }
  }
  return {};
}

void sleep_ms(int milliseconds) {
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
}

struct Doubled : torch::autograd::Function<Doubled> {
  static Tensor forward(torch::autograd::AutogradContext*, const Tensor& x) { return 2 * x; }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 const torch::autograd::variable_list& gradients) {
    return {2 * gradients[0]};
  }
};

TEST(OpProfile, CountsTheCallsOfEachOpWhileItLives) {
  const Tensor x = torch::ones({4});
  {
    const OpProfile profile;
    x.add(x).add(x).mul(x);
    EXPECT_EQ(op_called(profile, "aten::add").calls, 2);
    EXPECT_EQ(op_called(profile, "aten::mul").calls, 1);
    EXPECT_EQ(op_called(profile, "aten::sub").calls, 0);
  }
  x.add(x);
  const OpProfile next;
  EXPECT_TRUE(next.by_self_time().empty());  // neither the op before nor those of the last profile
}

TEST(OpProfile, TimeBelongsToTheInnermostScopeAlone) {
  const OpProfile profile;
  const Timer timer;
  {
    RECORD_FUNCTION("outer", {});
    sleep_ms(10);
    {
      RECORD_FUNCTION("inner", {});
      sleep_ms(40);
    }
    sleep_ms(10);
  }
  const double elapsed_s = timer.elapsed_s();
  const double outer_s = op_called(profile, "outer").self_s;
  const double inner_s = op_called(profile, "inner").self_s;
  EXPECT_GE(outer_s, 0.020);
  EXPECT_GE(inner_s, 0.040);
  EXPECT_LE(outer_s + inner_s, elapsed_s);
  EXPECT_EQ(profile.by_self_time().front().name, inner_s > outer_s ? "inner" : "outer");
}

TEST(OpProfile, NodesOfBackwardAreThereUnderReadableNames) {
  const Tensor x = torch::ones({4}).requires_grad_();
  const Tensor loss = Doubled::apply(x).sum();
  const OpProfile profile;
  loss.backward();
  EXPECT_EQ(op_called(profile, "Doubled backward").calls, 1);
  EXPECT_EQ(op_called(profile, "SumBackward0").calls, 1);
  EXPECT_GE(op_called(profile, "autograd engine").calls, 2);
}

TEST(OpProfile, TwoAtATimeAreAnError) {
  const OpProfile profile;
  EXPECT_THROW(OpProfile(), Error);
}

}  // namespace
}  // namespace detforge
