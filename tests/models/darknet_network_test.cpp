#include "detforge/models/darknet/darknet_network.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "detforge/models/darknet/darknet_ops.h"
#include "detforge/models/init.h"
#include "support/torch/tensors.h"

namespace detforge {
namespace {

using test::expect_close;

/// 32x32 input, maps of strides 8 and 4, every kind of layer.
constexpr const char* kNetwork = R"([net]
width=32
height=32
[convolutional]
filters=6
size=3
stride=2
pad=1
batch_normalize=1
activation=leaky
[convolutional]
filters=6
size=3
pad=1
groups=3
batch_normalize=1
activation=mish
[shortcut]
from=-2
activation=relu
[maxpool]
size=2
stride=2
[dropout]
probability=.5
[convolutional]
filters=4
stride=2
activation=relu
[convolutional]
filters=14
activation=linear
[yolo]
anchors=4,5, 8,8, 16,12, 20,30
mask=2,3
classes=2
[route]
layers=5
[upsample]
stride=2
[route]
layers=-1,4
groups=2
group_id=1
[convolutional]
filters=7
activation=linear
[yolo]
anchors=4,5, 8,8, 16,12, 20,30
mask=1
classes=2
)";

/// As Darknet's forward_maxpool_layer has it: loops over outputs and window, cells outside lose.
Tensor naive_maxpool(const Tensor& input, const MaxpoolSpec& spec) {
  const std::int64_t height = input.size(2), width = input.size(3);
  const std::int64_t out_h = (height + spec.padding - spec.size) / spec.stride + 1;
  const std::int64_t out_w = (width + spec.padding - spec.size) / spec.stride + 1;
  const Tensor output = torch::empty({1, 1, out_h, out_w});
  const auto in = input.accessor<float, 4>();
  auto out = output.accessor<float, 4>();
  for (std::int64_t i = 0; i < out_h; ++i) {
    for (std::int64_t j = 0; j < out_w; ++j) {
      float most = -std::numeric_limits<float>::max();
      for (std::int64_t k = 0; k < spec.size * spec.size; ++k) {
        const std::int64_t y = -spec.padding / 2 + i * spec.stride + k / spec.size;
        const std::int64_t x = -spec.padding / 2 + j * spec.stride + k % spec.size;
        const bool inside = y >= 0 && y < height && x >= 0 && x < width;
        most = inside ? std::max(most, in[0][0][y][x]) : most;
      }
      out[0][0][i][j] = most;
    }
  }
  return output;
}

TEST(DarknetMaxpool, StrideTwoByHand) {
  // One row 1 5 2, size 2, stride 2, padding 1: windows (1 5) and (2 -).
  const Tensor row = torch::tensor({1.0F, 5.0F, 2.0F}).view({1, 1, 1, 3});
  const Tensor pooled = darknet_maxpool(row, {.size = 2, .stride = 2, .padding = 1});
  EXPECT_TRUE(pooled.equal(torch::tensor({5.0F, 2.0F}).view({1, 1, 1, 2})));
}

TEST(DarknetMaxpool, EqualsDarknetsLoopForAllSizes) {
  torch::manual_seed(1);
  for (const std::int64_t side : {5, 8, 13}) {
    const Tensor input = torch::randn({1, 1, side, side + 1}) - 3;  // mostly negative
    for (const std::int64_t size : {1, 2, 3, 5, 9}) {
      for (const std::int64_t stride : {1, 2, 3}) {
        for (const std::int64_t padding : {size - 1, std::int64_t{0}, size}) {
          if (side + padding < size || (padding + 1) / 2 >= size) {  // refused by the parser
            continue;
          }
          const MaxpoolSpec spec{.size = size, .stride = stride, .padding = padding};
          EXPECT_TRUE(darknet_maxpool(input, spec).equal(naive_maxpool(input, spec)))
              << side << " " << size << " " << stride << " " << padding;
        }
      }
    }
  }
}

TEST(DarknetDropout, IsAFunctionOfTheImagesKeyAndTheLayer) {
  const Tensor ones = torch::ones({3, 4, 16, 16});
  const Tensor both = darknet_dropout(ones, 0.25, {7, 8, 7}, 4);
  EXPECT_TRUE(both[0].equal(both[2]));
  EXPECT_FALSE(both[0].equal(both[1]));
  EXPECT_TRUE(darknet_dropout(ones.narrow(0, 1, 1), 0.25, {8}, 4)[0].equal(both[1]));
  EXPECT_FALSE(darknet_dropout(ones, 0.25, {7, 8, 7}, 5)[0].equal(both[0]));
}

TEST(DarknetDropout, KeepsTheMean) {
  const Tensor dropped = darknet_dropout(torch::ones({2, 8, 64, 64}), 0.15, {1, 2}, 0);
  const double zeros = dropped.eq(0).to(torch::kDouble).mean().item<double>();
  EXPECT_NEAR(zeros, 0.15, 0.005);  // 65536 draws: deviation 0.0014
  EXPECT_NEAR(dropped.max().item<double>(), 1 / 0.85, 1e-6);
  EXPECT_NEAR(dropped.mean().item<double>(), 1.0, 0.006);
}

DarknetNetwork make_network() {
  DarknetNetwork network(parse_darknet_cfg(kNetwork));
  initialize_weights(*network, 3);
  torch::manual_seed(5);
  const torch::NoGradGuard no_grad;
  for (const auto& buffer : network->named_buffers()) {
    buffer.value().uniform_(0.5, 1.5);
  }
  for (const auto& parameter : network->named_parameters()) {
    parameter.value().add_(torch::randn_like(parameter.value()) * 0.1);
  }
  return network;
}

/// The network above written out in torch's operators, in evaluation mode.
std::vector<Tensor> naive_forward(const DarknetNetwork& network, const Tensor& images) {
  const auto parameters = network->named_parameters();
  const auto buffers = network->named_buffers();
  const auto convolve = [&](const std::string& n, const Tensor& x, std::int64_t stride,
                            std::int64_t padding, std::int64_t groups) {
    return torch::conv2d(x, parameters[n + ".conv.weight"], {}, stride, padding, 1, groups);
  };
  const auto normalise = [&](const std::string& n, const Tensor& x) {
    const auto column = [](const Tensor& v) { return v.view({1, -1, 1, 1}); };
    return (x - column(buffers[n + ".bn.running_mean"])) /
               column((buffers[n + ".bn.running_var"] + 1e-6).sqrt()) *
               column(parameters[n + ".bn.weight"]) +
           column(parameters[n + ".bn.bias"]);
  };
  const auto biased = [&](const std::string& n, const Tensor& x, std::int64_t stride) {
    return convolve(n, x, stride, 0, 1) + parameters[n + ".conv.bias"].view({1, -1, 1, 1});
  };
  const Tensor x0 = torch::leaky_relu(normalise("0", convolve("0", images, 2, 1, 1)), 0.1);
  const Tensor y1 = normalise("1", convolve("1", x0, 1, 1, 3));
  const Tensor x1 = y1 * torch::tanh(torch::softplus(y1));
  const Tensor x4 = torch::max_pool2d(torch::relu(x1 + x0), 2, 2);
  const Tensor x5 = torch::relu(biased("5", x4, 2));
  const Tensor upper = x5.repeat_interleave(2, 2).repeat_interleave(2, 3);
  const Tensor joined = torch::cat({upper.slice(1, 2, 4), x4.slice(1, 3, 6)}, 1);
  return {biased("6", x5, 1), biased("11", joined, 1)};
}

TEST(DarknetNetwork, EqualsItsLayersWrittenOut) {
  DarknetNetwork network = make_network();
  network->eval();
  const torch::NoGradGuard no_grad;
  const Tensor images = torch::randn({2, 3, 32, 64});
  const std::vector<Tensor> maps = network->forward(images, {});
  const std::vector<Tensor> expected = naive_forward(network, images);
  ASSERT_EQ(maps.size(), 2U);
  EXPECT_EQ(maps[0].sizes(), (std::vector<std::int64_t>{2, 14, 4, 8}));
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_TRUE(expect_close(maps[i], expected[i], {.rtol = 1e-5, .atol = 1e-5}));
  }
}

TEST(DarknetNetwork, StateNamesCountLayersAsDarknetDoes) {
  const DarknetNetwork network(parse_darknet_cfg(kNetwork));
  std::vector<std::string> names;
  for (const auto& parameter : network->named_parameters()) {
    names.push_back(parameter.key());
  }
  EXPECT_EQ(names, (std::vector<std::string>{"0.conv.weight", "0.bn.weight", "0.bn.bias",
                                             "1.conv.weight", "1.bn.weight", "1.bn.bias",
                                             "5.conv.weight", "5.conv.bias", "6.conv.weight",
                                             "6.conv.bias", "11.conv.weight", "11.conv.bias"}));
}

TEST(DarknetNetwork, DropoutIsReproducibleAndOnlyForTraining) {
  DarknetNetwork network = make_network();
  const torch::NoGradGuard no_grad;
  const Tensor images = torch::randn({1, 3, 32, 32});
  const Tensor first = network->forward(images, {1})[0];
  EXPECT_TRUE(network->forward(images, {1})[0].equal(first));
  EXPECT_FALSE(network->forward(images, {2})[0].equal(first));
  network->eval();
  EXPECT_TRUE(network->forward(images, {1})[0].equal(network->forward(images, {2})[0]));
}

// Darknet's forward_batchnorm_layer: rolling = .99 * rolling + .01 * batch, the variance over N
// - 1.
TEST(DarknetNetwork, RunningStatisticsKeep99PercentOfThemselves) {
  DarknetNetwork network = make_network();
  const torch::NoGradGuard no_grad;
  const Tensor images = torch::randn({2, 3, 32, 32}) + 3;
  const Tensor weight = network->named_parameters()["0.conv.weight"];
  const Tensor convolved = torch::conv2d(images, weight, {}, 2, 1).transpose(0, 1).flatten(1);
  const Tensor mean = network->named_buffers()["0.bn.running_mean"];
  const Tensor variance = network->named_buffers()["0.bn.running_var"];
  const Tensor wanted_mean = 0.99 * mean + 0.01 * convolved.mean(1);
  const Tensor wanted_variance = 0.99 * variance + 0.01 * convolved.var(1, /*unbiased=*/true);
  network->forward(images, {1, 2});
  EXPECT_TRUE(expect_close(mean, wanted_mean, {.rtol = 1e-5, .atol = 1e-6}));
  EXPECT_TRUE(expect_close(variance, wanted_variance, {.rtol = 1e-5, .atol = 1e-6}));
}

TEST(DarknetNetworkProperty, BatchingEqualsOneByOne) {
  DarknetNetwork network = make_network();
  network->eval();
  const torch::NoGradGuard no_grad;
  const Tensor images = torch::randn({3, 3, 32, 32});
  const std::vector<Tensor> batch = network->forward(images, {});
  for (std::int64_t n = 0; n < 3; ++n) {
    const std::vector<Tensor> one = network->forward(images.narrow(0, n, 1), {});
    for (std::size_t i = 0; i < batch.size(); ++i) {
      EXPECT_TRUE(expect_close(batch[i].narrow(0, n, 1), one[i], {.rtol = 1e-5, .atol = 1e-5}));
    }
  }
}

}  // namespace
}  // namespace detforge
