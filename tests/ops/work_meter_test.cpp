#include "detforge/ops/work_meter.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "detforge/ops/conv2d.h"

namespace detforge {
namespace {

TEST(WorkMeter, CountsNoBackwardWithoutAutograd) {
  const Tensor input = torch::zeros({2, 3}).requires_grad_();
  const Tensor weight = torch::zeros({4, 3}).requires_grad_();
  const WorkMeter meter;
  {
    const torch::NoGradGuard no_grad;
    linear(input, weight, Tensor());
  }
  EXPECT_EQ(meter.forward_macs(), 24.0);
  EXPECT_EQ(meter.backward_macs(), 0.0);
  EXPECT_EQ(meter.kept_bytes(), 0.0);
  linear(input, weight, Tensor());
  EXPECT_EQ(meter.forward_macs(), 48.0);
  EXPECT_EQ(meter.backward_macs(), 48.0);  // both gradients
}

}  // namespace
}  // namespace detforge
