#include "detforge/ops/activation_checkpoint.h"

#include <array>

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/types.h>

#include "detforge/models/backbones/darknet53.h"
#include "detforge/models/backbones/resnet.h"
#include "detforge/ops/cpu/conv_kernels.h"
#include "detforge/ops/kernel_backend.h"
#include "detforge/ops/work_meter.h"
#include "support/torch/random_boxes.h"

namespace detforge {
namespace {

/// Outputs, gradients and buffers of one training step of a backbone, by name.
using StepTensors = std::vector<std::pair<std::string, Tensor>>;

template <typename Backbone>
StepTensors step_tensors(Backbone backbone, const Tensor& images) {
  initialize_weights(*backbone, 3);
  StepTensors all;
  Tensor loss = torch::zeros({});
  for (const Tensor& map : backbone->forward(images)) {
    all.emplace_back("map", map);
    loss = loss + (map * test::random_tensor(map.sizes().vec(), 9)).sum();
  }
  loss.backward();
  for (const auto& item : backbone->named_parameters()) {
    all.emplace_back(item.key(), item.value().grad());
  }
  for (const auto& item : backbone->named_buffers()) {
    all.emplace_back(item.key(), item.value());
  }
  if (images.requires_grad()) {
    all.emplace_back("images", images.grad());
  }
  return all;
}

/// To the bit with the own kernels; LibTorch's path adds a stage's gradients in another order.
void expect_same(const StepTensors& actual, const StepTensors& expected) {
  const bool is_own = kernel_backend() == KernelBackend::kOwn && cpu::conv_kernels() != nullptr;
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const auto& [name, value] = actual[i];
    ASSERT_EQ(value.defined(), expected[i].second.defined()) << name;
    if (value.defined()) {
      const Tensor& wanted = expected[i].second;
      EXPECT_TRUE(is_own ? value.equal(wanted)
                         : ((value - wanted).norm() <= 1e-4 * wanted.norm()).item<bool>())
          << name << " " << ((value - wanted).norm() / wanted.norm()).item<double>();
    }
  }
}

TEST(ActivationCheckpoint, ResNetHasTheSameOutputsGradientsAndStatistics) {
  const Tensor images = test::random_tensor({2, 3, 64, 64}, 1);
  for (const NormType norm :
       {NormType::kFrozenBn, NormType::kBn, NormType::kEvalBn, NormType::kGn}) {
    for (const int freeze_at : {0, 3}) {
      ResNetOptions options{.depth = 18,
                            .norm = norm,
                            .stem_out_channels = 32,
                            .res2_out_channels = 64,
                            .freeze_at = freeze_at};
      const StepTensors plain = step_tensors(ResNet(options), images);
      options.checkpoint = true;
      expect_same(step_tensors(ResNet(options), images), plain);
    }
  }
}

TEST(ActivationCheckpoint, TheMeterCountsTheSecondForwardAndWhatIsKept) {
  const auto measure = [](bool checkpoint) {
    ResNet resnet(ResNetOptions{.depth = 18,
                                .norm = NormType::kFrozenBn,
                                .stem_out_channels = 32,
                                .res2_out_channels = 64,
                                .checkpoint = checkpoint,
                                .freeze_at = 2});
    initialize_weights(*resnet, 3);
    const WorkMeter meter;
    const std::vector<Tensor> maps = resnet->forward(test::random_tensor({1, 3, 64, 64}, 1));
    double outputs = 0;
    Tensor loss = torch::zeros({});
    for (const Tensor& map : maps) {
      outputs += map.requires_grad() ? static_cast<double>(map.nbytes()) : 0;
      loss = loss + map.sum();
    }
    const double first = meter.forward_macs();
    loss.backward();
    return std::array<double, 4>{meter.kept_bytes(), outputs, first, meter.forward_macs()};
  };
  const auto [plain_kept, plain_outputs, plain_first, plain_all] = measure(false);
  const auto [kept, outputs, first, all] = measure(true);
  EXPECT_GT(plain_kept, 2 * plain_outputs);
  EXPECT_EQ(kept, outputs);  // res3, res4 and res5; res2 is frozen
  EXPECT_EQ(plain_all, plain_first);
  EXPECT_EQ(first, plain_first);
  EXPECT_GT(all, 1.5 * first);  // the trained stages once more
}

TEST(ActivationCheckpoint, DarknetHasTheSameOutputsGradientsAndStatistics) {
  for (const NormType norm : {NormType::kBn, NormType::kEvalBn}) {
    Darknet53Options options{.stem_channels = 8, .blocks = {1, 2, 1, 1, 0}, .norm = norm};
    // The images' gradient passes through every stage.
    const auto images = [] { return test::random_tensor({2, 3, 64, 96}, 2).requires_grad_(); };
    const StepTensors plain = step_tensors(Darknet53(options), images());
    options.checkpoint = true;
    expect_same(step_tensors(Darknet53(options), images()), plain);
  }
}

TEST(ActivationCheckpoint, DrawsTheSameRandomNumbersAgain) {
  const Tensor input = test::random_tensor({40, 50}, 3).requires_grad_();
  const Tensor weight = test::random_tensor({50, 50}, 4).requires_grad_();
  const auto part = [&](const Tensor& x) { return at::dropout(x.mm(weight), 0.5, true).square(); };
  const auto run = [&](bool checkpoint) {
    torch::manual_seed(7);
    const Tensor output = checkpoint ? checkpoint_activations(part, input, {weight}) : part(input);
    const Tensor between = torch::rand({3});  // moves the generator before backward
    auto results = torch::autograd::grad({output.sum()}, {input, weight});
    results.insert(results.end(), {output, between, torch::rand({3})});
    return results;
  };
  const auto plain = run(false), checkpointed = run(true);
  for (std::size_t i = 0; i < plain.size(); ++i) {
    EXPECT_TRUE(plain[i].equal(checkpointed[i])) << i;
  }
}

TEST(ActivationCheckpoint, RunsAPartTwiceAndKeepsNothingOfTheFirstTime) {
  const Tensor input = torch::ones({4}).requires_grad_();
  std::vector<bool> runs;
  c10::weak_intrusive_ptr<c10::TensorImpl> inner(at::ones({4}).getIntrusivePtr());
  const auto part = [&](const Tensor& x) {
    runs.push_back(is_recomputing());
    const Tensor activation = x.exp();
    inner = c10::weak_intrusive_ptr<c10::TensorImpl>(activation.getIntrusivePtr());
    return activation.square();
  };
  const Tensor output = checkpoint_activations(part, input, {});
  EXPECT_TRUE(inner.expired());
  output.sum().backward();
  EXPECT_EQ(runs, (std::vector<bool>{false, true}));
  EXPECT_FALSE(is_recomputing());
  EXPECT_TRUE(input.grad().allclose(2 * (2 * input).exp()));
}

TEST(ActivationCheckpoint, IsThePartItselfWithoutGradients) {
  int runs = 0;
  const auto part = [&](const Tensor& x) {
    ++runs;
    return x + 1;
  };
  EXPECT_FALSE(checkpoint_activations(part, torch::ones({2}), {}).requires_grad());
  const torch::NoGradGuard no_grad;
  const Tensor weight = torch::ones({2}).requires_grad_();
  EXPECT_FALSE(checkpoint_activations(part, torch::ones({2}), {weight}).requires_grad());
  EXPECT_EQ(runs, 2);
}

}  // namespace
}  // namespace detforge
