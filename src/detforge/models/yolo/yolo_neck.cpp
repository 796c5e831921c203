#include "detforge/models/yolo/yolo_neck.h"

#include <fmt/format.h>
#include <torch/types.h>

#include "detforge/core/error.h"
#include "detforge/ops/upsample.h"

namespace detforge {
namespace {

/// mmcv's kaiming_init of a ConvModule with leaky ReLU.
constexpr WeightInit kInit{.kind = WeightInit::Kind::kMsra, .leaky_slope = 0.1};

}  // namespace

/// 1x1, 3x3, 1x1, 3x3, 1x1 convolutions; the 3x3 ones have twice the width.
class DetectionBlock : public torch::nn::Module {
 public:
  DetectionBlock(std::int64_t in_channels, std::int64_t width, NormType norm) {
    std::int64_t channels = in_channels;
    for (int i = 1; i <= 5; ++i) {
      const bool is_wide = i % 2 == 0;
      const std::int64_t out = is_wide ? 2 * width : width;
      convs_.push_back(register_module(fmt::format("conv{}", i),
                                       ConvLayer(darknet_layer({.in_channels = channels,
                                                                .out_channels = out,
                                                                .kernel = is_wide ? 3 : 1,
                                                                .norm = norm,
                                                                .init = kInit}))));
      channels = out;
    }
  }

  Tensor forward(Tensor x) const {
    for (const ConvLayer& conv : convs_) {
      x = conv->forward(x);
    }
    return x;
  }

 private:
  std::vector<ConvLayer> convs_;
};

YoloNeckImpl::YoloNeckImpl(const YoloNeckOptions& options, const std::vector<FeatureSpec>& below) {
  const auto& widths = options.widths;
  DETFORGE_CHECK(
      !below.empty() && widths.size() == below.size(),
      fmt::format("{} neck widths, but {} maps of the backbone", widths.size(), below.size()),
      "give one width for each map, coarsest first");
  for (std::size_t i = 0; i < widths.size(); ++i) {
    std::int64_t in_channels = below[below.size() - 1 - i].channels;
    if (i > 0) {
      laterals_.push_back(register_module(fmt::format("conv{}", i),
                                          ConvLayer(darknet_layer({.in_channels = widths[i - 1],
                                                                   .out_channels = widths[i],
                                                                   .norm = options.norm,
                                                                   .init = kInit}))));
      in_channels += widths[i];
    }
    blocks_.push_back(
        register_module(fmt::format("detect{}", i + 1),
                        std::make_shared<DetectionBlock>(in_channels, widths[i], options.norm)));
  }
}

std::vector<Tensor> YoloNeckImpl::forward(const std::vector<Tensor>& features) {
  std::vector<Tensor> outputs{blocks_.front()->forward(features.back())};
  for (std::size_t i = 1; i < blocks_.size(); ++i) {
    const Tensor coarser = laterals_[i - 1]->forward(outputs.back());
    const Tensor& own = features[features.size() - 1 - i];
    outputs.push_back(blocks_[i]->forward(upsample_concat(coarser, own)));
  }
  return outputs;
}

}  // namespace detforge
