#include "detforge/models/backbones/fpn.h"

#include <fmt/format.h>
#include <torch/types.h>

#include "detforge/core/error.h"
#include "detforge/ops/max_pool.h"
#include "detforge/ops/upsample.h"

namespace detforge {

FpnImpl::FpnImpl(ResNet bottom_up, const FpnOptions& options) : fuse_(options.fuse) {
  bottom_up_ = register_module("bottom_up", std::move(bottom_up));
  const std::vector<FeatureSpec>& below = bottom_up_->features();
  inputs_ = find_features(below, options.in_features);
  DETFORGE_CHECK(!inputs_.empty(), "the feature pyramid has no input maps",
                 "set MODEL.FPN.IN_FEATURES");
  constexpr WeightInit kInit{.kind = WeightInit::Kind::kXavier};
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    const FeatureSpec& spec = below[inputs_[i]];
    DETFORGE_CHECK(i == 0 || spec.stride == 2 * below[inputs_[i - 1]].stride,
                   "the stride of " + spec.name + " is not twice the stride of the map before it",
                   "list the maps finest first without gaps, and use RES5_DILATION 1");
    const std::string level = std::to_string(level_of(spec.stride));
    laterals_.push_back(register_module(
        "fpn_lateral" + level, ConvLayer(ConvLayerOptions{.in_channels = spec.channels,
                                                          .out_channels = options.out_channels,
                                                          .norm = options.norm,
                                                          .init = kInit})));
    outputs_.push_back(register_module(
        "fpn_output" + level, ConvLayer(ConvLayerOptions{.in_channels = options.out_channels,
                                                         .out_channels = options.out_channels,
                                                         .kernel = 3,
                                                         .padding = 1,
                                                         .norm = options.norm,
                                                         .init = kInit})));
    features_.push_back({fmt::format("p{}", level), options.out_channels, spec.stride});
  }
  const std::int64_t top_stride = features_.back().stride * 2;
  features_.push_back({fmt::format("p{}", level_of(top_stride)), options.out_channels, top_stride});
}

std::vector<Tensor> FpnImpl::forward(const Tensor& images) {
  const std::vector<Tensor> below = bottom_up_->forward(images);
  std::vector<Tensor> maps(inputs_.size());
  Tensor top_down;
  for (std::size_t i = inputs_.size(); i-- > 0;) {
    const Tensor lateral = laterals_[i]->forward(below[inputs_[i]]);
    const bool is_top = !top_down.defined();
    top_down = is_top ? lateral : upsample_add_(lateral, top_down);
    if (!is_top && fuse_ == FpnFuse::kAverage) {
      top_down = top_down / 2;
    }
    maps[i] = outputs_[i]->forward(top_down);
  }
  maps.push_back(max_pool(maps.back(), {.kernel = 1, .stride = 2}));
  return maps;
}

std::int64_t FpnImpl::size_divisibility() const {
  return features_[features_.size() - 2].stride;
}

}  // namespace detforge
