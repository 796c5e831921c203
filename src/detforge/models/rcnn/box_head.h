#pragma once

#include "detforge/models/blocks.h"

namespace detforge {

struct BoxHeadOptions {
  std::int64_t num_conv = 0;
  std::int64_t conv_dim = 256;
  NormType norm = NormType::kNone;  ///< of the convolutions
  std::int64_t num_fc = 2;
  std::int64_t fc_dim = 1024;
};

/// Convolutions, then fully connected layers, all with ReLU: pooled features [R,C,S,S] ->
/// [R,out_features()]. State names: conv1.*, conv2.*, ..., fc1.*, fc2.*  Ref: Detectron2's
/// FastRCNNConvFCHead.
class BoxHeadImpl : public torch::nn::Module {
 public:
  /// `channels` and `resolution` (height and width) of the pooled features.
  BoxHeadImpl(const BoxHeadOptions& options, std::int64_t channels, std::int64_t resolution);

  /// R = 0 is allowed.
  Tensor forward(const Tensor& pooled);
  std::int64_t out_features() const { return out_features_; }

 private:
  std::vector<ConvLayer> convs_;
  std::vector<LinearLayer> fcs_;
  std::int64_t flat_features_ = 0, out_features_ = 0;
};
TORCH_MODULE(BoxHead);

}  // namespace detforge
