#include "detforge/models/rcnn/rpn_head.h"

#include <torch/types.h>

#include "detforge/core/error.h"
#include "detforge/models/output_watch.h"
#include "detforge/ops/gather_patches.h"
#include "detforge/ops/map_type.h"

namespace detforge {
namespace {

constexpr WeightInit kHeadInit{.kind = WeightInit::Kind::kNormal, .std = 0.01};

// Where chosen anchors lie.
struct AnchorPlaces {
  std::vector<Tensor> cells;  // of each level, as gather_patches wants them
  Tensor order;               // [S]: takes rows level by level back to the order of the anchors
  Tensor anchor_of_cell;      // [S]: 0..A-1
};

AnchorPlaces find_anchors(const Tensor& anchors,
                          const std::vector<Tensor>& features,
                          std::int64_t anchors_per_cell) {
  std::int64_t cells_per_image = 0;
  for (const Tensor& map : features) {
    cells_per_image += map.size(2) * map.size(3);
  }
  const Tensor all_cells = torch::div(anchors, anchors_per_cell, "floor");
  const Tensor image = torch::div(all_cells, cells_per_image, "floor");
  const Tensor cell = all_cells.remainder(cells_per_image);
  AnchorPlaces places;
  places.anchor_of_cell = anchors.remainder(anchors_per_cell);
  std::vector<Tensor> rows;
  std::int64_t first = 0;
  for (const Tensor& map : features) {
    const std::int64_t count = map.size(2) * map.size(3);
    rows.push_back((cell >= first).logical_and(cell < first + count).nonzero().squeeze(1));
    places.cells.push_back(image.index_select(0, rows.back()) * count +
                           cell.index_select(0, rows.back()) - first);
    first += count;
  }
  places.order = torch::cat(rows).argsort();
  return places;
}

}  // namespace

RpnHeadImpl::RpnHeadImpl(const RpnHeadOptions& options)
    : anchors_per_cell_(options.anchors_per_cell) {
  DETFORGE_CHECK(!options.conv_dims.empty(), "the RPN head has no convolution",
                 "set MODEL.RPN.CONV_DIMS [-1]");
  std::int64_t channels = options.in_channels;
  torch::nn::Module* owner = this;
  if (options.conv_dims.size() > 1) {
    owner = register_module("conv", std::make_shared<torch::nn::Module>("conv")).get();
  }
  for (std::size_t i = 0; i < options.conv_dims.size(); ++i) {
    const std::int64_t out = options.conv_dims[i] == -1 ? channels : options.conv_dims[i];
    const std::string name = owner == this ? "conv" : "conv" + std::to_string(i);
    convs_.push_back(
        owner->register_module(name, ConvLayer(ConvLayerOptions{.in_channels = channels,
                                                                .out_channels = out,
                                                                .kernel = 3,
                                                                .padding = 1,
                                                                .activation = Activation::kRelu,
                                                                .init = kHeadInit})));
    channels = out;
  }
  objectness_logits_ = register_module(
      "objectness_logits",
      ConvLayer(ConvLayerOptions{
          .in_channels = channels, .out_channels = options.anchors_per_cell, .init = kHeadInit}));
  anchor_deltas_ = register_module(
      "anchor_deltas", ConvLayer(ConvLayerOptions{.in_channels = channels,
                                                  .out_channels = options.anchors_per_cell * 4,
                                                  .init = kHeadInit}));
}

std::vector<RpnHeadImpl::Output> RpnHeadImpl::forward(const std::vector<Tensor>& features) const {
  // Both 1x1 convolutions read the same map: as one, they read it once.
  const Tensor weight = torch::cat({objectness_logits_->weight(), anchor_deltas_->weight()});
  const Tensor bias = torch::cat({objectness_logits_->bias(), anchor_deltas_->bias()});
  std::vector<Output> outputs;
  for (Tensor x : features) {
    for (const ConvLayer& conv : convs_) {
      x = conv->forward(x);
    }
    const Tensor both = widen(conv2d(x, weight, bias, Conv2dOptions{}));
    watch_output(*objectness_logits_, both);
    outputs.push_back({.logits = both.slice(1, 0, anchors_per_cell_),
                       .deltas = both.slice(1, anchors_per_cell_)});
  }
  return outputs;
}

RpnHeadImpl::AnchorOutput RpnHeadImpl::forward_at(const std::vector<Tensor>& features,
                                                  const Tensor& anchors) const {
  const AnchorPlaces places = find_anchors(anchors, features, anchors_per_cell_);
  std::vector<Tensor> patches;
  for (std::size_t level = 0; level < features.size(); ++level) {
    patches.push_back(gather_patches(features[level], places.cells[level]));
  }
  const ConvLayer& conv = convs_.front();
  const Tensor hidden =
      linear(torch::cat(patches), conv->weight().flatten(1), conv->bias(), Activation::kRelu);
  const Tensor weight = torch::cat({objectness_logits_->weight(), anchor_deltas_->weight()});
  const Tensor bias = torch::cat({objectness_logits_->bias(), anchor_deltas_->bias()});
  const Tensor both = widen(linear(hidden, weight.flatten(1), bias)).index_select(0, places.order);
  const std::int64_t count = anchors.size(0);
  const Tensor deltas = both.slice(1, anchors_per_cell_).view({count, anchors_per_cell_, 4});
  const Tensor own = places.anchor_of_cell.unsqueeze(1);
  return {.logits = both.slice(1, 0, anchors_per_cell_).gather(1, own).squeeze(1),
          .deltas = deltas.gather(1, own.unsqueeze(2).expand({count, 1, 4})).squeeze(1)};
}

}  // namespace detforge
