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

TEST(WorkMeter, CountsEachShapeOnceWithThePassesThatItsBackwardWillHave) {
  const Tensor image = torch::zeros({2, 3, 8, 8});
  const Tensor frozen = torch::zeros({4, 3, 3, 3});
  const Tensor trained = torch::zeros({4, 4, 1, 1}).requires_grad_();
  const WorkMeter meter;
  const Conv2dOptions strided{.stride = {2, 2}, .padding = {1, 1}};
  Tensor features = conv2d(image, frozen, Tensor(), strided);
  features = conv2d(features, trained, Tensor(), {});
  conv2d(features, trained, Tensor(), {});

  ASSERT_EQ(meter.layers().size(), 2U);
  const LayerCount& first = meter.layers()[0];
  const LayerShape expected{.kind = LayerKind::kConv,
                            .input = {2, 3, 8, 8},
                            .weight = {4, 3, 3, 3},
                            .stride = {2, 2},
                            .padding = {1, 1}};
  EXPECT_EQ(first.shape, expected);
  EXPECT_EQ(first.macs, 2 * 4 * 4 * 4 * 27.0);  // outputs times kernel times channels
  EXPECT_EQ(first.forward, 1);
  EXPECT_EQ(first.backward_data, 0);
  EXPECT_EQ(first.backward_weight, 0);
  const LayerCount& second = meter.layers()[1];
  EXPECT_EQ(second.forward, 2);
  EXPECT_EQ(second.backward_data, 1);  // the features behind the frozen layer have no gradient
  EXPECT_EQ(second.backward_weight, 2);
}

TEST(WorkMeter, TellsTheKindsOfLayersApart) {
  const WorkMeter meter;
  linear(torch::zeros({2, 3}), torch::zeros({4, 3}), Tensor());
  conv2d(torch::zeros({2, 3, 1, 1}), torch::zeros({4, 3, 1, 1}), Tensor(), {});
  conv_transpose2d(torch::zeros({1, 3, 2, 2}), torch::zeros({3, 5, 2, 2}), Tensor(),
                   {.stride = {2, 2}});
  conv1x1_at_channel(torch::zeros({2, 3, 4, 4}), torch::zeros({5, 3, 1, 1}), torch::zeros({5}),
                     torch::zeros({2}, torch::kLong));
  ASSERT_EQ(meter.layers().size(), 4U);
  const LayerKind kinds[] = {LayerKind::kLinear, LayerKind::kConv, LayerKind::kConvTranspose,
                             LayerKind::kConvAtChannel};
  const double macs[] = {2 * 3 * 4, 2 * 3 * 4, 2 * 2 * 3 * 5 * 2 * 2, 2 * 4 * 4 * 3};
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(meter.layers()[i].shape.kind, kinds[i]) << i;
    EXPECT_EQ(meter.layers()[i].macs, macs[i]) << i;
  }
}

}  // namespace
}  // namespace detforge
