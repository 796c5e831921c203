#include "detforge/models/backbones/resnet.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <torch/types.h>

#include "detforge/core/error.h"
#include "detforge/ops/activation_checkpoint.h"
#include "detforge/ops/max_pool.h"

namespace detforge {

struct ResidualBlockOptions {
  std::int64_t in_channels = 0, bottleneck_channels = 0, out_channels = 0;
  std::int64_t stride = 1, groups = 1, dilation = 1;
  bool is_basic = false, stride_in_1x1 = true;
  NormType norm = NormType::kFrozenBn;
};

/// relu(convolutions(x) + shortcut(x)). Basic: 3x3, 3x3. Bottleneck: 1x1, 3x3, 1x1.
class ResidualBlock : public torch::nn::Module {
 public:
  explicit ResidualBlock(const ResidualBlockOptions& o) {
    const auto add = [this](const std::string& name, const ConvLayerOptions& options) {
      return register_module(name, ConvLayer(options));
    };
    if (o.in_channels != o.out_channels) {
      shortcut_ = add("shortcut", {.in_channels = o.in_channels,
                                   .out_channels = o.out_channels,
                                   .stride = o.stride,
                                   .norm = o.norm});
    }
    if (o.is_basic) {
      convs_.push_back(add("conv1", {.in_channels = o.in_channels,
                                     .out_channels = o.out_channels,
                                     .kernel = 3,
                                     .stride = o.stride,
                                     .padding = 1,
                                     .norm = o.norm,
                                     .activation = Activation::kRelu}));
      convs_.push_back(add("conv2", {.in_channels = o.out_channels,
                                     .out_channels = o.out_channels,
                                     .kernel = 3,
                                     .padding = 1,
                                     .norm = o.norm,
                                     .activation = Activation::kRelu}));
      return;
    }
    convs_.push_back(add("conv1", {.in_channels = o.in_channels,
                                   .out_channels = o.bottleneck_channels,
                                   .stride = o.stride_in_1x1 ? o.stride : 1,
                                   .norm = o.norm,
                                   .activation = Activation::kRelu}));
    convs_.push_back(add("conv2", {.in_channels = o.bottleneck_channels,
                                   .out_channels = o.bottleneck_channels,
                                   .kernel = 3,
                                   .stride = o.stride_in_1x1 ? 1 : o.stride,
                                   .padding = o.dilation,
                                   .dilation = o.dilation,
                                   .groups = o.groups,
                                   .norm = o.norm,
                                   .activation = Activation::kRelu}));
    convs_.push_back(add("conv3", {.in_channels = o.bottleneck_channels,
                                   .out_channels = o.out_channels,
                                   .norm = o.norm,
                                   .activation = Activation::kRelu}));
  }

  Tensor forward(const Tensor& input) {
    auto [x, shortcut] = convs_.front()->forward_and_input(input);
    for (std::size_t i = 1; i + 1 < convs_.size(); ++i) {
      x = convs_[i]->forward(x);
    }
    return convs_.back()->forward(x,
                                  shortcut_.is_empty() ? shortcut : shortcut_->forward(shortcut));
  }

 private:
  ConvLayer shortcut_{nullptr};
  std::vector<ConvLayer> convs_;
};

namespace {

std::array<int, 4> blocks_per_stage(int depth) {
  switch (depth) {
    case 18:
      return {2, 2, 2, 2};
    case 34:
    case 50:
      return {3, 4, 6, 3};
    case 101:
      return {3, 4, 23, 3};
    case 152:
      return {3, 8, 36, 3};
    default:
      throw Error("there is no ResNet of depth " + std::to_string(depth),
                  "use 18, 34, 50, 101 or 152");
  }
}

void check(const ResNetOptions& o) {
  DETFORGE_CHECK(o.res5_dilation == 1 || o.res5_dilation == 2,
                 "res5 dilation " + std::to_string(o.res5_dilation) + " is not possible",
                 "use 1 or 2");
  DETFORGE_CHECK(
      o.depth > 34 || (o.res2_out_channels == 64 && o.res5_dilation == 1 && o.num_groups == 1),
      "ResNet-" + std::to_string(o.depth) +
          " is made of basic blocks: it needs 64 res2 channels, no "
          "dilation and no groups",
      "set RES2_OUT_CHANNELS 64, RES5_DILATION 1 and NUM_GROUPS 1");
  DETFORGE_CHECK(o.freeze_at >= 0 && o.freeze_at <= 5,
                 "cannot freeze at " + std::to_string(o.freeze_at),
                 "use 0 (nothing) to 5 (everything)");
}

// Frozen batch statistics are what a frozen BN is.
NormType norm_of(const ResNetOptions& o, bool frozen) {
  const bool is_bn = o.norm == NormType::kBn || o.norm == NormType::kSyncBn;
  return frozen && is_bn ? NormType::kFrozenBn : o.norm;
}

}  // namespace

ResNetImpl::ResNetImpl(const ResNetOptions& options) : checkpoint_(options.checkpoint) {
  check(options);
  add_stem(options);
  add_stages(options);
}

void ResNetImpl::add_stem(const ResNetOptions& o) {
  auto stem = register_module("stem", std::make_shared<torch::nn::Module>("stem"));
  stem_ = stem->register_module("conv1",
                                ConvLayer(ConvLayerOptions{.in_channels = 3,
                                                           .out_channels = o.stem_out_channels,
                                                           .kernel = 7,
                                                           .stride = 2,
                                                           .padding = 3,
                                                           .norm = norm_of(o, o.freeze_at >= 1)}));
  if (o.freeze_at >= 1) {
    freeze_parameters(*stem);
  }
}

void ResNetImpl::add_stages(const ResNetOptions& o) {
  const auto counts = blocks_per_stage(o.depth);
  std::vector<FeatureSpec> all;
  ResidualBlockOptions block{.in_channels = o.stem_out_channels,
                             .groups = o.num_groups,
                             .is_basic = o.depth <= 34,
                             .stride_in_1x1 = o.stride_in_1x1};
  std::int64_t stride = 4;
  for (int index = 0; index < 4; ++index) {
    const int number = index + 2;  // res2 to res5
    const std::string name = fmt::format("res{}", number);
    block.bottleneck_channels = (o.num_groups * o.width_per_group) << index;
    block.out_channels = o.res2_out_channels << index;
    block.dilation = number == 5 ? o.res5_dilation : 1;
    block.stride = index == 0 || block.dilation == 2 ? 1 : 2;
    block.norm = norm_of(o, o.freeze_at >= number);
    stride *= block.stride;
    auto holder = register_module(name, std::make_shared<torch::nn::Module>(name));
    Stage stage{.module = holder, .blocks = {}, .is_output = false};
    for (int i = 0; i < counts[static_cast<std::size_t>(index)]; ++i) {
      stage.blocks.push_back(
          holder->register_module(std::to_string(i), std::make_shared<ResidualBlock>(block)));
      block.in_channels = block.out_channels;
      block.stride = 1;
    }
    if (o.freeze_at >= number) {
      freeze_parameters(*holder);
    }
    stage.is_output =
        std::find(o.out_features.begin(), o.out_features.end(), name) != o.out_features.end();
    stages_.push_back(std::move(stage));
    all.push_back({name, block.out_channels, stride});
  }
  find_features(all, o.out_features);  // throws on a name that does not exist
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (stages_[i].is_output) {
      features_.push_back(all[i]);
    }
  }
}

Tensor ResNetImpl::Stage::forward(Tensor x) const {
  for (const auto& block : blocks) {
    x = block->forward(x);
  }
  return x;
}

std::vector<Tensor> ResNetImpl::forward(const Tensor& images) {
  // ReLU behind the pooling: the result and its gradient are the same, on a quarter of the pixels.
  Tensor x =
      max_pool(stem_->forward(images), {.kernel = 3, .stride = 2, .padding = 1, .relu = true});
  std::vector<Tensor> outputs;
  for (const Stage& stage : stages_) {
    const auto run = [&stage](const Tensor& input) { return stage.forward(input); };
    x = checkpoint_ ? checkpoint_activations(run, x, stage.module->parameters()) : run(x);
    if (stage.is_output) {
      outputs.push_back(x);
    }
  }
  return outputs;
}

}  // namespace detforge
