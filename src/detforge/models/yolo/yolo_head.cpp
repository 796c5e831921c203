#include "detforge/models/yolo/yolo_head.h"

#include <cmath>

#include <fmt/format.h>
#include <torch/types.h>

#include "detforge/core/error.h"
#include "detforge/ops/map_type.h"

namespace detforge {
namespace {

constexpr WeightInit kInit{.kind = WeightInit::Kind::kNormal, .std = 0.01};

/// The logit of a probability.
double logit(double probability) {
  return -std::log((1.0 - probability) / probability);
}

}  // namespace

YoloHeadImpl::YoloHeadImpl(const YoloHeadOptions& options,
                           const std::vector<std::int64_t>& in_channels,
                           const YoloLayout& layout) {
  const std::size_t count = layout.scales.size();
  DETFORGE_CHECK(count > 0 && options.widths.size() == count && in_channels.size() == count,
                 fmt::format("{} scales, {} head widths and {} maps do not fit", count,
                             options.widths.size(), in_channels.size()),
                 "give one width and one list of anchors for each map, coarsest first");
  DETFORGE_CHECK(layout.num_classes > 0,
                 fmt::format("the model has {} classes", layout.num_classes),
                 "set NUM_CLASSES to the number of the dataset's categories");
  const auto bridges =
      register_module("convs_bridge", std::make_shared<torch::nn::Module>("bridges"));
  const auto predictions =
      register_module("convs_pred", std::make_shared<torch::nn::Module>("predictions"));
  for (std::size_t i = 0; i < count; ++i) {
    DETFORGE_CHECK(!layout.scales[i].anchors.empty(), fmt::format("scale {} has no anchors", i),
                   "give each scale at least one anchor");
    bridges_.push_back(bridges->register_module(
        std::to_string(i), ConvLayer(darknet_layer({.in_channels = in_channels[i],
                                                    .out_channels = options.widths[i],
                                                    .kernel = 3,
                                                    .norm = options.norm,
                                                    .init = kInit}))));
    predictions_.push_back(predictions->register_module(
        std::to_string(i),
        ConvLayer(ConvLayerOptions{
            .in_channels = options.widths[i],
            .out_channels = layout.scales[i].anchor_count() * layout.values_per_anchor(),
            .init = kInit})));
  }
}

std::vector<Tensor> YoloHeadImpl::forward(const std::vector<Tensor>& features) {
  std::vector<Tensor> maps;
  for (std::size_t i = 0; i < features.size(); ++i) {
    maps.push_back(widen(predictions_[i]->forward(bridges_[i]->forward(features[i]))));
  }
  return maps;
}

void YoloHeadImpl::initialize_biases(const YoloLayout& layout) {
  const torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < predictions_.size(); ++i) {
    Tensor bias = predictions_[i]->bias();
    bias.copy_(yolo_bias_priors(layout.scales[i], layout.num_classes));
  }
}

Tensor yolo_bias_priors(const YoloScale& scale, std::int64_t num_classes) {
  Tensor biases = torch::zeros({scale.anchor_count(), 5 + num_classes});
  const double side = 608.0 / static_cast<double>(scale.stride);
  biases.select(1, 4).fill_(logit(8.0 / (side * side)));
  biases.slice(1, 5).fill_(logit(0.01));
  return biases.flatten();
}

}  // namespace detforge
