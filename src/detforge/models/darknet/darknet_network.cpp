#include "detforge/models/darknet/darknet_network.h"

#include <cmath>

#include <torch/types.h>

#include "detforge/models/darknet/darknet_ops.h"
#include "detforge/models/darknet/darknet_shapes.h"
#include "detforge/models/yolo/yolo_head.h"
#include "detforge/ops/add_maps.h"
#include "detforge/ops/in_f32.h"
#include "detforge/ops/upsample.h"

namespace detforge {
namespace {

/// Darknet divides by sqrt(variance) + 1e-6, OpenCV's reader by sqrt(variance + 1e-6); with the
/// latter the recorded outputs of a trained network agree to 1e-5, with 1e-5 to 1e-2 only.
constexpr double kDarknetNormEps = 1e-6;
constexpr double kDarknetNormMomentum = 0.01;

Activation fused_activation(DarknetActivation activation) {
  switch (activation) {
    case DarknetActivation::kLeaky:
      return Activation::kLeakyRelu;
    case DarknetActivation::kRelu:
      return Activation::kRelu;
    default:
      return Activation::kNone;
  }
}

WeightInit convolution_init(const DarknetCfg& cfg, std::size_t index) {
  const std::int64_t in_channels = cfg.layers[index].in.channels;
  const auto& spec = std::get<ConvolutionalSpec>(cfg.layers[index].spec);
  if (index + 1 < cfg.layers.size() &&
      std::holds_alternative<YoloSpec>(cfg.layers[index + 1].spec)) {
    return {.kind = WeightInit::Kind::kNormal, .std = 0.01};
  }
  const auto fan_in = static_cast<double>(spec.size * spec.size * in_channels / spec.groups);
  return {.kind = WeightInit::Kind::kNormal, .std = std::sqrt(2.0 / fan_in)};
}

Tensor route(const RouteSpec& spec, const std::vector<Tensor>& outputs) {
  std::vector<Tensor> parts;
  for (const std::size_t layer : spec.layers) {
    const Tensor& whole = outputs[layer];
    const std::int64_t channels = whole.size(1) / spec.groups;
    parts.push_back(spec.groups == 1 ? whole : whole.narrow(1, spec.group * channels, channels));
  }
  return parts.size() == 1 ? parts.front() : at::cat(parts, 1);
}

Tensor upsample(const Tensor& input, std::int64_t stride) {
  if (stride == 2) {
    return upsample_twice(input);
  }
  const auto scale = static_cast<double>(stride);
  return in_f32("upsample", input, [&](const Tensor& map) {
    return at::upsample_nearest2d(map, {map.size(2) * stride, map.size(3) * stride}, scale, scale);
  });
}

}  // namespace

DarknetNetworkImpl::DarknetNetworkImpl(DarknetCfg cfg) : cfg_(std::move(cfg)) {
  for (std::size_t i = 0; i < cfg_.layers.size(); ++i) {
    convolutions_.emplace_back(nullptr);
    if (std::holds_alternative<ConvolutionalSpec>(cfg_.layers[i].spec)) {
      add_convolution(i);
    }
  }
  find_last_readers();
}

void DarknetNetworkImpl::add_convolution(std::size_t index) {
  const DarknetLayer& layer = cfg_.layers[index];
  const auto& spec = std::get<ConvolutionalSpec>(layer.spec);
  convolutions_[index] = register_module(
      std::to_string(index),
      ConvLayer(ConvLayerOptions{.in_channels = layer.in.channels,
                                 .out_channels = spec.filters,
                                 .kernel = spec.size,
                                 .stride = spec.stride,
                                 .padding = spec.padding,
                                 .groups = spec.groups,
                                 .norm = spec.batch_normalize ? NormType::kBn : NormType::kNone,
                                 .norm_eps = kDarknetNormEps,
                                 .norm_momentum = kDarknetNormMomentum,
                                 .activation = fused_activation(spec.activation),
                                 .init = convolution_init(cfg_, index),
                                 .names = StateNames::kMmdetection}));
}

void DarknetNetworkImpl::initialize_biases(const YoloLayout& layout) {
  const torch::NoGradGuard no_grad;
  std::size_t scale = 0;
  for (std::size_t i = 0; i < cfg_.layers.size(); ++i) {
    if (!std::holds_alternative<YoloSpec>(cfg_.layers[i].spec)) {
      continue;
    }
    const ConvLayer& before = convolutions_[i - 1];  // a first layer cannot be a [yolo]
    if (!before.is_empty() && before->bias().defined()) {
      Tensor bias = before->bias();
      bias.copy_(yolo_bias_priors(layout.scales[scale], layout.num_classes));
    }
    ++scale;
  }
}

void DarknetNetworkImpl::find_last_readers() {
  std::vector<bool> is_read(cfg_.layers.size(), false);
  last_read_.resize(cfg_.layers.size());
  for (std::size_t i = cfg_.layers.size(); i-- > 0;) {
    for (const std::size_t input : darknet_inputs(cfg_, i)) {
      if (!is_read[input]) {
        is_read[input] = true;
        last_read_[i].push_back(input);
      }
    }
  }
}

Tensor DarknetNetworkImpl::run_layer(std::size_t index,
                                     const std::vector<Tensor>& outputs,
                                     const Tensor& images,
                                     const std::vector<std::uint64_t>& rng_keys) {
  const auto& spec = cfg_.layers[index].spec;
  if (const auto* joined = std::get_if<RouteSpec>(&spec)) {
    return route(*joined, outputs);
  }
  const Tensor& input = index == 0 ? images : outputs[index - 1];
  if (const auto* convolution = std::get_if<ConvolutionalSpec>(&spec)) {
    Tensor output = convolutions_[index]->forward(input);
    const bool is_left = fused_activation(convolution->activation) == Activation::kNone;
    return is_left ? darknet_activate_(std::move(output), convolution->activation) : output;
  }
  if (const auto* shortcut = std::get_if<ShortcutSpec>(&spec)) {
    return darknet_activate_(add_maps(input, outputs[shortcut->from]), shortcut->activation);
  }
  if (const auto* larger = std::get_if<UpsampleSpec>(&spec)) {
    return upsample(input, larger->stride);
  }
  if (const auto* pool = std::get_if<MaxpoolSpec>(&spec)) {
    return darknet_maxpool(input, *pool);
  }
  const auto* dropout = std::get_if<DropoutSpec>(&spec);
  return dropout != nullptr && is_training()
             ? darknet_dropout(input, dropout->probability, rng_keys, index)
             : input;  // a [yolo] hands its map on
}

std::vector<Tensor> DarknetNetworkImpl::forward(const Tensor& images,
                                                const std::vector<std::uint64_t>& rng_keys) {
  std::vector<Tensor> outputs(cfg_.layers.size()), maps;
  for (std::size_t i = 0; i < cfg_.layers.size(); ++i) {
    outputs[i] = run_layer(i, outputs, images, rng_keys);
    if (std::holds_alternative<YoloSpec>(cfg_.layers[i].spec)) {
      maps.push_back(outputs[i]);
    }
    for (const std::size_t input : last_read_[i]) {
      outputs[input].reset();
    }
  }
  return maps;
}

}  // namespace detforge
