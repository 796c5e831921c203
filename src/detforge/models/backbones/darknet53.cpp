#include "detforge/models/backbones/darknet53.h"

#include <fmt/format.h>
#include <torch/types.h>

#include "detforge/core/error.h"
#include "detforge/ops/activation_checkpoint.h"
#include "detforge/ops/add_maps.h"

namespace detforge {

/// x + conv2(conv1(x)), the sum behind conv2's activation.
class DarknetBlock : public torch::nn::Module {
 public:
  DarknetBlock(std::int64_t channels, NormType norm) {
    conv1_ = register_module(
        "conv1", ConvLayer(darknet_layer(
                     {.in_channels = channels, .out_channels = channels / 2, .norm = norm})));
    conv2_ = register_module(
        "conv2",
        ConvLayer(darknet_layer(
            {.in_channels = channels / 2, .out_channels = channels, .kernel = 3, .norm = norm})));
  }

  Tensor forward(const Tensor& input) const {
    const auto [reduced, shortcut] = conv1_->forward_and_input(input);
    const Tensor output = conv2_->forward(reduced);
    // The activation's backward reads its output, so it may be changed only if there is none.
    return output.requires_grad() ? add_maps(output, shortcut) : output.add_(shortcut);
  }

 private:
  ConvLayer conv1_{nullptr}, conv2_{nullptr};
};

namespace {

constexpr std::size_t kFirstOutput = 2;  // conv_res_block3

bool is_frozen(const Darknet53Options& o, std::size_t part) {
  return static_cast<int>(part) < o.frozen_stages;
}

NormType norm_of(const Darknet53Options& o, std::size_t part) {
  return is_frozen(o, part) ? NormType::kFrozenBn : o.norm;
}

void check(const Darknet53Options& o) {
  DETFORGE_CHECK(o.stem_channels > 0,
                 fmt::format("Darknet-53's stem has {} channels", o.stem_channels),
                 "use 32, or fewer for a small network");
  for (const int blocks : o.blocks) {
    DETFORGE_CHECK(blocks >= 0, fmt::format("a stage of Darknet-53 has {} blocks", blocks),
                   "use 1, 2, 8, 8, 4, or fewer for a small network");
  }
  DETFORGE_CHECK(o.frozen_stages >= -1 && o.frozen_stages <= 6,
                 fmt::format("Darknet-53 cannot freeze {} parts", o.frozen_stages),
                 "freeze -1 (nothing) to 6 (the stem and all five stages)");
  DETFORGE_CHECK(o.norm != NormType::kNone, "Darknet-53 has no form without normalisation",
                 "use a batch norm");
}

}  // namespace

Darknet53Impl::Darknet53Impl(const Darknet53Options& options) : checkpoint_(options.checkpoint) {
  check(options);
  stem_ = register_module("conv1", ConvLayer(darknet_layer({.in_channels = 3,
                                                            .out_channels = options.stem_channels,
                                                            .kernel = 3,
                                                            .norm = norm_of(options, 0)})));
  if (is_frozen(options, 0)) {
    freeze_parameters(*stem_);
  }
  for (std::size_t index = 0; index < options.blocks.size(); ++index) {
    stages_.push_back(make_stage(options, index));
  }
}

Darknet53Impl::Stage Darknet53Impl::make_stage(const Darknet53Options& options, std::size_t index) {
  const std::string name = fmt::format("conv_res_block{}", index + 1);
  const NormType norm = norm_of(options, index + 1);
  const std::int64_t channels = options.stem_channels << (index + 1);
  const auto holder = register_module(name, std::make_shared<torch::nn::Module>(name));
  Stage stage;
  stage.module = holder;
  stage.conv = holder->register_module("conv", ConvLayer(darknet_layer({.in_channels = channels / 2,
                                                                        .out_channels = channels,
                                                                        .kernel = 3,
                                                                        .stride = 2,
                                                                        .norm = norm})));
  for (int i = 0; i < options.blocks[index]; ++i) {
    stage.blocks.push_back(holder->register_module(fmt::format("res{}", i),
                                                   std::make_shared<DarknetBlock>(channels, norm)));
  }
  if (is_frozen(options, index + 1)) {
    freeze_parameters(*holder);
  }
  if (index >= kFirstOutput) {
    features_.push_back({name, channels, std::int64_t{2} << index});
  }
  return stage;
}

Tensor Darknet53Impl::Stage::forward(const Tensor& input) const {
  Tensor x = conv->forward(input);
  for (const auto& block : blocks) {
    x = block->forward(x);
  }
  return x;
}

std::vector<Tensor> Darknet53Impl::forward(const Tensor& images) {
  Tensor x = stem_->forward(images);
  std::vector<Tensor> outputs;
  for (std::size_t index = 0; index < stages_.size(); ++index) {
    const Stage& stage = stages_[index];
    const auto run = [&stage](const Tensor& input) { return stage.forward(input); };
    x = checkpoint_ ? checkpoint_activations(run, x, stage.module->parameters()) : run(x);
    if (index >= kFirstOutput) {
      outputs.push_back(x);
    }
  }
  return outputs;
}

}  // namespace detforge
