#include "detforge/models/rcnn/mask_head.h"

#include <fmt/format.h>
#include <torch/types.h>

#include "detforge/core/error.h"
#include "detforge/models/output_watch.h"
#include "detforge/models/rcnn/conv_stack.h"

namespace detforge {

UpsampleLayerImpl::UpsampleLayerImpl(std::int64_t in_channels, std::int64_t out_channels) {
  weight_ = register_parameter("weight", torch::zeros({in_channels, out_channels, 2, 2}));
  bias_ = register_parameter("bias", torch::zeros({out_channels}));
}

Tensor UpsampleLayerImpl::forward(const Tensor& input) const {
  const Tensor output =
      conv_transpose2d(input, weight_, bias_, {.stride = {2, 2}, .activation = Activation::kRelu});
  watch_output(*this, output);
  return output;
}

void UpsampleLayerImpl::initialize(std::uint64_t key) {
  // c2_msra_fill takes the first dimension for the output, also here where it is the input.
  fill_weight_(weight_, {.kind = WeightInit::Kind::kMsra}, key);
  const torch::NoGradGuard no_grad;
  bias_.zero_();
}

MaskHeadImpl::MaskHeadImpl(const MaskHeadOptions& options,
                           std::int64_t channels,
                           std::int64_t num_classes)
    : class_agnostic_(options.class_agnostic) {
  DETFORGE_CHECK(options.num_conv >= 0 && options.conv_dim > 0 && num_classes > 0,
                 fmt::format("a mask head of {} convolutions to {} channels and {} classes is "
                             "impossible",
                             options.num_conv, options.conv_dim, num_classes),
                 "check MODEL.ROI_MASK_HEAD and MODEL.ROI_HEADS.NUM_CLASSES");
  convs_ = register_conv_stack(
      *this, "mask_fcn",
      {.num_conv = options.num_conv, .conv_dim = options.conv_dim, .norm = options.norm}, channels);
  channels = convs_.empty() ? channels : options.conv_dim;
  deconv_ = register_module("deconv", UpsampleLayer(channels, options.conv_dim));
  predictor_ = register_module(
      "predictor",
      ConvLayer(ConvLayerOptions{.in_channels = options.conv_dim,
                                 .out_channels = options.class_agnostic ? 1 : num_classes,
                                 .init = {.kind = WeightInit::Kind::kNormal, .std = 0.001}}));
}

Tensor MaskHeadImpl::forward(const Tensor& pooled, const Tensor& labels) const {
  Tensor x = pooled;
  for (const ConvLayer& conv : convs_) {
    x = conv->forward(x);
  }
  x = deconv_->forward(x);
  x = conv1x1_at_channel(x, predictor_->weight(), predictor_->bias(),
                         class_agnostic_ ? torch::zeros_like(labels) : labels);
  watch_output(*predictor_, x);
  return x;
}

}  // namespace detforge
