#include "detforge/models/rcnn/box_head.h"

#include <fmt/format.h>
#include <torch/types.h>

#include "detforge/core/error.h"
#include "detforge/models/rcnn/conv_stack.h"

namespace detforge {

BoxHeadImpl::BoxHeadImpl(const BoxHeadOptions& options,
                         std::int64_t channels,
                         std::int64_t resolution) {
  DETFORGE_CHECK(
      options.num_conv >= 0 && options.num_fc >= 0 && options.num_conv + options.num_fc > 0,
      "the box head has no layers", "set MODEL.ROI_BOX_HEAD.NUM_FC 2");
  convs_ = register_conv_stack(
      *this, "conv",
      {.num_conv = options.num_conv, .conv_dim = options.conv_dim, .norm = options.norm}, channels);
  channels = convs_.empty() ? channels : options.conv_dim;
  flat_features_ = channels * resolution * resolution;
  out_features_ = flat_features_;
  for (std::int64_t i = 1; i <= options.num_fc; ++i) {
    fcs_.push_back(register_module(
        fmt::format("fc{}", i), LinearLayer(LinearLayerOptions{.in_features = out_features_,
                                                               .out_features = options.fc_dim,
                                                               .activation = Activation::kRelu})));
    out_features_ = options.fc_dim;
  }
}

Tensor BoxHeadImpl::forward(const Tensor& pooled) {
  Tensor x = pooled;
  for (ConvLayer& conv : convs_) {
    x = conv->forward(x);
  }
  x = x.reshape({x.size(0), flat_features_});
  for (LinearLayer& fc : fcs_) {
    x = fc->forward(x);
  }
  return x;
}

}  // namespace detforge
