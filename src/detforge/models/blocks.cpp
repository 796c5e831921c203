#include "detforge/models/blocks.h"

#include <torch/types.h>

#include "detforge/core/error.h"
#include "detforge/models/output_watch.h"
#include "detforge/ops/activation_checkpoint.h"
#include "detforge/ops/batch_norm.h"
#include "detforge/ops/group_norm.h"
#include "detforge/ops/in_f32.h"

namespace detforge {
namespace {

constexpr std::int64_t kGnGroups = 32;
constexpr const char* kConvModule = "conv";  // of StateNames::kMmdetection

const char* norm_name(StateNames names) {
  return names == StateNames::kMmdetection ? "bn" : "norm";
}

Conv2dOptions conv_options(const ConvLayerOptions& o, Activation activation) {
  return {.stride = {o.stride, o.stride},
          .padding = {o.padding, o.padding},
          .dilation = {o.dilation, o.dilation},
          .groups = o.groups,
          .activation = activation};
}

}  // namespace

NormImpl::NormImpl(NormType type, std::int64_t channels, NormOptions options)
    : type_(type), options_(options) {
  DETFORGE_CHECK(type != NormType::kNone, "there is no norm layer of type none",
                 "leave the norm out instead");
  DETFORGE_CHECK(type != NormType::kGn || channels % kGnGroups == 0,
                 "group norm needs a multiple of 32 channels, got " + std::to_string(channels),
                 "change the number of channels or use another NORM");
  const Tensor ones = torch::ones({channels});
  const Tensor zeros = torch::zeros({channels});
  if (type == NormType::kFrozenBn) {
    weight_ = register_buffer("weight", ones.clone());
    bias_ = register_buffer("bias", zeros.clone());
    running_mean_ = register_buffer("running_mean", zeros.clone());
    running_var_ = register_buffer("running_var", ones - options.eps);  // the identity, exactly
    return;
  }
  weight_ = register_parameter("weight", ones.clone());
  bias_ = register_parameter("bias", zeros.clone());
  if (type != NormType::kGn) {
    running_mean_ = register_buffer("running_mean", zeros.clone());
    running_var_ = register_buffer("running_var", ones.clone());
  }
}

bool NormImpl::is_affine(const Tensor& input) const {
  if (takes_batch_statistics()) {
    // No pixel, no statistics: they stay as they are. Not so where other ranks have some.
    return !is_training() || (input.numel() == 0 && !all_reduce_);
  }
  return type_ == NormType::kFrozenBn || type_ == NormType::kEvalBn;
}

FoldedConv NormImpl::fold(const Tensor& conv_weight, const Tensor& conv_bias) const {
  return fold_frozen_norm(conv_weight, conv_bias,
                          {.gamma = weight_,
                           .beta = bias_,
                           .running_mean = running_mean_,
                           .running_var = running_var_,
                           .eps = options_.eps});
}

Tensor NormImpl::forward(const Tensor& input, const Tensor& residual, Activation activation) const {
  if (type_ == NormType::kGn) {
    return group_norm(input, weight_, bias_,
                      {.groups = kGnGroups, .eps = options_.eps, .activation = activation},
                      residual);
  }
  if (takes_batch_statistics() && is_training()) {
    const bool updates = !is_recomputing();
    const Tensor mean = updates ? running_mean_ : running_mean_.clone();
    const Tensor var = updates ? running_var_ : running_var_.clone();
    const BatchNormOptions options{
        .eps = options_.eps, .momentum = options_.momentum, .activation = activation};
    return all_reduce_
               ? sync_batch_norm(input, weight_, bias_, mean, var, options, all_reduce_, residual)
               : batch_norm(input, weight_, bias_, mean, var, options, residual);
  }
  const Tensor output = in_f32("batch_norm", input, [&](const Tensor& map) {
    return at::batch_norm(map, widen(weight_), widen(bias_), running_mean_, running_var_, false,
                          options_.momentum, options_.eps, /*cudnn_enabled=*/true);
  });
  return add_and_activate_(output, residual, activation);
}

ConvLayerOptions darknet_layer(ConvLayerOptions options) {
  options.padding = options.kernel / 2;
  options.activation = Activation::kLeakyRelu;
  options.names = StateNames::kMmdetection;
  return options;
}

ConvLayerImpl::ConvLayerImpl(const ConvLayerOptions& options) : options_(options) {
  DETFORGE_CHECK(options.in_channels > 0 && options.out_channels > 0 && options.groups > 0 &&
                     options.in_channels % options.groups == 0 &&
                     options.out_channels % options.groups == 0,
                 "a convolution from " + std::to_string(options.in_channels) + " to " +
                     std::to_string(options.out_channels) + " channels in " +
                     std::to_string(options.groups) + " groups is impossible",
                 "make both numbers of channels positive multiples of the groups");
  if (options.names == StateNames::kMmdetection) {
    register_module(kConvModule, std::make_shared<torch::nn::Module>(kConvModule));
  }
  weight_ = owner().register_parameter(
      "weight", torch::zeros({options.out_channels, options.in_channels / options.groups,
                              options.kernel, options.kernel}));
  if (options.norm == NormType::kNone) {
    bias_ = owner().register_parameter("bias", torch::zeros({options.out_channels}));
  } else {
    norm_ = register_module(norm_name(options.names),
                            Norm(options.norm, options.out_channels,
                                 NormOptions{options.norm_eps, options.norm_momentum}));
  }
}

Tensor ConvLayerImpl::forward(const Tensor& input, const Tensor& residual) const {
  return run(input, residual, /*returns_input=*/false).output;
}

ConvAndInput ConvLayerImpl::forward_and_input(const Tensor& input) const {
  return run(input, {}, /*returns_input=*/true);
}

ConvAndInput ConvLayerImpl::run(const Tensor& input,
                                const Tensor& residual,
                                bool returns_input) const {
  const auto watched = [this](ConvAndInput result) {
    watch_output(*this, result.output);
    return result;
  };
  const auto convolve = [&](const FoldedConv& conv, Activation activation,
                            const Tensor& added) -> ConvAndInput {
    const Conv2dOptions options = conv_options(options_, activation);
    if (returns_input) {
      return conv2d_and_input(input, conv.weight, conv.bias, options);
    }
    return {conv2d(input, conv.weight, conv.bias, options, added), {}};
  };
  if (norm_.is_empty()) {
    return watched(convolve({weight_, bias_}, options_.activation, residual));
  }
  if (norm_->is_affine(input)) {
    return watched(convolve(norm_->fold(weight_, bias_), options_.activation, residual));
  }
  ConvAndInput result = convolve({weight_, {}}, Activation::kNone, {});
  watch_output(*this, result.output);
  result.output = norm_->forward(result.output, residual, options_.activation);
  watch_output(*norm_, result.output);
  return result;
}

torch::nn::Module& ConvLayerImpl::owner() {
  return options_.names == StateNames::kMmdetection ? *named_children()[kConvModule] : *this;
}

void ConvLayerImpl::fold_norm_() {
  if (norm_.is_empty() || !norm_->has_running_statistics()) {
    return;
  }
  DETFORGE_CHECK(!is_training(), "the norms of a model in training cannot be folded",
                 "call eval() first");
  const torch::NoGradGuard no_grad;
  const auto [weight, bias] = norm_->fold(weight_, bias_);
  weight_.copy_(weight);
  bias_ = owner().register_parameter("bias", bias, weight_.requires_grad());
  unregister_module(norm_name(options_.names));
  norm_ = nullptr;
}

void fold_norms_(torch::nn::Module& module) {
  module.apply([](torch::nn::Module& child) {
    if (auto* layer = child.as<ConvLayerImpl>()) {
      layer->fold_norm_();
    }
  });
}

void ConvLayerImpl::initialize(std::uint64_t key) {
  fill_weight_(weight_, options_.init, key);
  if (bias_.defined()) {
    const torch::NoGradGuard no_grad;
    bias_.fill_(options_.init.bias);
  }
}

LinearLayerImpl::LinearLayerImpl(const LinearLayerOptions& options) : options_(options) {
  DETFORGE_CHECK(options.in_features > 0 && options.out_features > 0,
                 "a linear layer from " + std::to_string(options.in_features) + " to " +
                     std::to_string(options.out_features) + " features is impossible",
                 "make both positive");
  weight_ = register_parameter("weight", torch::zeros({options.out_features, options.in_features}));
  bias_ = register_parameter("bias", torch::zeros({options.out_features}));
}

Tensor LinearLayerImpl::forward(const Tensor& input) {
  const Tensor output = linear(input, weight_, bias_, options_.activation);
  watch_output(*this, output);
  return output;
}

void LinearLayerImpl::initialize(std::uint64_t key) {
  fill_weight_(weight_, options_.init, key);
  const torch::NoGradGuard no_grad;
  bias_.fill_(options_.init.bias);
}

void freeze_parameters(torch::nn::Module& module) {
  for (Tensor& parameter : module.parameters()) {
    parameter.set_requires_grad(false);
  }
}

}  // namespace detforge
