#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "detforge/core/error.h"
#include "detforge/models/blocks.h"
#include "detforge/ops/upsample.h"
#include "support/torch/random_boxes.h"
#include "support/torch/tensors.h"

namespace detforge {
namespace {

using test::expect_close;

constexpr std::array kAllNorms{NormType::kNone, NormType::kFrozenBn, NormType::kBn,
                               NormType::kEvalBn, NormType::kGn};

ConvLayer make_layer(NormType norm, Activation activation = Activation::kRelu) {
  ConvLayer layer(ConvLayerOptions{.in_channels = 3,
                                   .out_channels = 32,
                                   .kernel = 3,
                                   .padding = 1,
                                   .norm = norm,
                                   .activation = activation});
  initialize_weights(*layer, 5);
  return layer;
}

// Gives every norm tensor values that are not the identity.
void randomize_norm(ConvLayer& layer) {
  const torch::NoGradGuard no_grad;
  std::uint64_t seed = 100;
  const auto randomize = [&](const std::string& name, Tensor tensor) {
    if (name.find("norm") != std::string::npos || name.find("bn") != std::string::npos) {
      tensor.copy_(test::random_tensor({32}, ++seed).abs() + 0.5);
    }
  };
  for (const auto& item : layer->named_parameters()) {
    randomize(item.key(), item.value());
  }
  for (const auto& item : layer->named_buffers()) {
    randomize(item.key(), item.value());
  }
}

TEST(WeightInit, XavierIsUniformWithinItsBoundAndMsraNormal) {
  Tensor weight = torch::zeros({64, 32, 3, 3});
  fill_weight_(weight, {.kind = WeightInit::Kind::kXavier}, 1);
  const double bound = std::sqrt(3.0 / (32 * 9));
  EXPECT_LE(weight.abs().max().item<double>(), bound);
  EXPECT_NEAR(weight.std().item<double>(), bound / std::sqrt(3.0), 0.02 * bound);
  fill_weight_(weight, {.kind = WeightInit::Kind::kMsra}, 1);
  EXPECT_NEAR(weight.std().item<double>(), std::sqrt(2.0 / (64 * 9)),
              0.02 * std::sqrt(2.0 / (64 * 9)));
  EXPECT_NEAR(weight.mean().item<double>(), 0.0, 1e-3);
}

TEST(WeightInit, IsTheSameForAnyNumberOfThreads) {
  Tensor one = torch::zeros({130, 130});
  Tensor many = torch::zeros({130, 130});
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  fill_weight_(one, {.kind = WeightInit::Kind::kNormal, .std = 2.0}, 9);
  at::set_num_threads(4);
  fill_weight_(many, {.kind = WeightInit::Kind::kNormal, .std = 2.0}, 9);
  at::set_num_threads(threads);
  EXPECT_TRUE(one.equal(many));
}

TEST(WeightInit, DependsOnSeedAndLayerName) {
  ConvLayer a = make_layer(NormType::kNone);
  ConvLayer b = make_layer(NormType::kNone);
  EXPECT_TRUE(a->parameters()[0].equal(b->parameters()[0]));
  initialize_weights(*b, 6);
  EXPECT_FALSE(a->parameters()[0].equal(b->parameters()[0]));
}

TEST(ConvLayer, FrozenNormHasBuffersOnlyAndStartsAsIdentity) {
  ConvLayer frozen = make_layer(NormType::kFrozenBn, Activation::kNone);
  EXPECT_EQ(frozen->parameters().size(), 1U);
  EXPECT_EQ(frozen->buffers().size(), 4U);
  const Tensor input = test::random_tensor({2, 3, 5, 6}, 1);
  const Tensor plain =
      detforge::conv2d(input, frozen->parameters()[0], Tensor(), Conv2dOptions{.padding = {1, 1}});
  EXPECT_TRUE(expect_close(frozen->forward(input), plain, {.rtol = 1e-6, .atol = 1e-6}));
}

TEST(ConvLayer, FoldedNormEqualsSeparateNorm) {
  for (const NormType norm : {NormType::kFrozenBn, NormType::kBn}) {
    ConvLayer layer = make_layer(norm);
    randomize_norm(layer);
    layer->eval();
    const Tensor input = test::random_tensor({2, 3, 5, 6}, 1);
    const Tensor residual = test::random_tensor({2, 32, 5, 6}, 2);
    auto state = layer->named_parameters();
    state.update(layer->named_buffers());
    const Tensor conv = at::conv2d(input, state["weight"], {}, 1, 1);
    const Tensor expected =
        (at::batch_norm(conv, state["norm.weight"], state["norm.bias"], state["norm.running_mean"],
                        state["norm.running_var"], false, 0.1, 1e-5, false) +
         residual)
            .relu();
    EXPECT_TRUE(
        expect_close(layer->forward(input, residual), expected, {.rtol = 1e-4, .atol = 1e-5}));
  }
}

TEST(ConvLayer, NormsFoldedForGoodGiveTheSameBits) {
  for (const StateNames names : {StateNames::kDetectron2, StateNames::kMmdetection}) {
    for (const NormType norm : kAllNorms) {
      ConvLayer layer(ConvLayerOptions{
          .in_channels = 3, .out_channels = 32, .kernel = 3, .norm = norm, .names = names});
      initialize_weights(*layer, 5);
      randomize_norm(layer);
      layer->eval();
      const Tensor input = test::random_tensor({2, 3, 5, 6}, 1);
      const Tensor before = layer->forward(input);
      torch::nn::Module model;
      model.register_module("layer", layer.ptr());
      fold_norms_(model);
      EXPECT_TRUE(layer->forward(input).equal(before));
      const bool has_statistics = norm != NormType::kNone && norm != NormType::kGn;
      EXPECT_EQ(model.buffers().size(), 0U);
      EXPECT_EQ(layer->bias().defined(), norm == NormType::kNone || has_statistics);
    }
  }
  EXPECT_THROW(fold_norms_(*make_layer(NormType::kBn)), Error);  // in training
}

TEST(ConvLayer, EvalBnInTrainingHasTheGradientsOfASeparateNorm) {
  ConvLayer layer = make_layer(NormType::kEvalBn, Activation::kLeakyRelu);
  randomize_norm(layer);
  const Tensor input = test::random_tensor({2, 3, 5, 6}, 1);
  const Tensor weights = test::random_tensor({2, 32, 5, 6}, 2);
  (layer->forward(input) * weights).sum().backward();
  auto state = layer->named_parameters();
  std::map<std::string, Tensor> grads;
  for (auto& item : state) {
    grads[item.key()] = item.value().grad().clone();
    item.value().mutable_grad().reset();
  }
  state.update(layer->named_buffers());
  const Tensor mean = state["norm.running_mean"].clone();
  const Tensor conv = at::conv2d(input, state["weight"], {}, 1, 1);
  const Tensor normed =
      at::batch_norm(conv, state["norm.weight"], state["norm.bias"], state["norm.running_mean"],
                     state["norm.running_var"], false, 0.1, 1e-5, false);
  (at::leaky_relu(normed, 0.1) * weights).sum().backward();
  EXPECT_EQ(grads.size(), 3U);
  for (const auto& [name, grad] : grads) {
    EXPECT_TRUE(test::expect_close_l2(grad, state[name].grad(), 1e-5)) << name;
  }
  EXPECT_TRUE(mean.equal(layer->named_buffers()["norm.running_mean"]));
}

TEST(ConvLayer, MmdetectionsNamesAreThoseOfConvModule) {
  const auto names_of = [](NormType norm) {
    ConvLayer layer(darknet_layer(
        {.in_channels = 3, .out_channels = 4, .kernel = 3, .stride = 2, .norm = norm}));
    EXPECT_EQ(layer->forward(torch::zeros({1, 3, 7, 8})).size(3), 4);
    std::vector<std::string> names = layer->named_parameters().keys();
    for (const std::string& name : layer->named_buffers().keys()) {
      names.push_back(name);
    }
    return names;
  };
  EXPECT_EQ(names_of(NormType::kNone), (std::vector<std::string>{"conv.weight", "conv.bias"}));
  EXPECT_EQ(names_of(NormType::kBn),
            (std::vector<std::string>{"conv.weight", "bn.weight", "bn.bias", "bn.running_mean",
                                      "bn.running_var"}));
}

TEST(UpsampleTwice, RepeatsEachPixelInASquare) {
  const Tensor pixels = torch::tensor({{{{1.0F, 2.0F}}}});
  EXPECT_TRUE(upsample_twice(pixels).equal(
      torch::tensor({{{{1.0F, 1.0F, 2.0F, 2.0F}, {1.0F, 1.0F, 2.0F, 2.0F}}}})));
}

TEST(ConvLayer, BatchNormInTrainingUpdatesItsStatistics) {
  ConvLayer layer = make_layer(NormType::kBn);
  layer->forward(test::random_tensor({2, 3, 5, 6}, 1));
  EXPECT_FALSE(layer->named_buffers()["norm.running_mean"].equal(torch::zeros({32})));
}

TEST(ConvLayer, EmptyBatchGivesEveryParameterAGradientAndKeepsStatistics) {
  for (const NormType norm : kAllNorms) {
    ConvLayer layer = make_layer(norm);
    const Tensor output = layer->forward(torch::zeros({0, 3, 5, 6}));
    EXPECT_EQ(output.sizes(), (std::vector<std::int64_t>{0, 32, 5, 6}));
    output.sum().backward();
    for (const Tensor& parameter : layer->parameters()) {
      EXPECT_TRUE(parameter.grad().defined()) << static_cast<int>(norm);
    }
    if (norm == NormType::kBn) {
      EXPECT_TRUE(layer->named_buffers()["norm.running_mean"].equal(torch::zeros({32})));
    }
  }
}

TEST(ConvLayer, RefusesImpossibleChannels) {
  EXPECT_THROW(ConvLayer(ConvLayerOptions{.in_channels = 3, .out_channels = 8, .groups = 2}),
               Error);
  EXPECT_THROW(
      ConvLayer(ConvLayerOptions{.in_channels = 3, .out_channels = 8, .norm = NormType::kGn}),
      Error);
}

TEST(LinearLayer, ByHandAndEmpty) {
  LinearLayer layer(
      LinearLayerOptions{.in_features = 2, .out_features = 1, .activation = Activation::kRelu});
  {
    const torch::NoGradGuard no_grad;
    layer->parameters()[0].copy_(torch::tensor({{2.0F, -1.0F}}));
    layer->parameters()[1].fill_(0.5);
  }
  // relu(2 * 1 - 3 + 0.5) = 0, relu(2 * 1 - 1 + 0.5) = 1.5
  const Tensor output = layer->forward(torch::tensor({{1.0F, 3.0F}, {1.0F, 1.0F}}));
  EXPECT_TRUE(expect_close(output, torch::tensor({{0.0F}, {1.5F}}), {}));
  layer->forward(torch::zeros({0, 2})).sum().backward();
  EXPECT_TRUE(layer->parameters()[0].grad().defined());
}

}  // namespace
}  // namespace detforge
