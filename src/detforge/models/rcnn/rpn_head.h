#pragma once

#include <vector>

#include "detforge/models/blocks.h"

namespace detforge {

struct RpnHeadOptions {
  std::int64_t in_channels = 256;
  std::int64_t anchors_per_cell = 3;
  std::vector<std::int64_t> conv_dims{-1};  ///< channels of each 3x3 convolution; -1: in_channels
};

/// Objectness and box deltas of every anchor, the same weights on every level: 3x3 convolutions
/// with ReLU, then two 1x1 convolutions. State names: conv.* (conv.conv0.* ... if several),
/// objectness_logits.*, anchor_deltas.*
class RpnHeadImpl : public torch::nn::Module {
 public:
  explicit RpnHeadImpl(const RpnHeadOptions& options);

  struct Output {
    Tensor logits;  ///< [N,A,H,W]
    Tensor deltas;  ///< [N,A*4,H,W]
  };
  /// features [N,C,H,W] of each level.
  std::vector<Output> forward(const std::vector<Tensor>& features) const;

  struct AnchorOutput {
    Tensor logits;  ///< [S]
    Tensor deltas;  ///< [S,4]
  };
  /// The values of forward() at chosen anchors only, computed from the 3x3 patches around their
  /// cells: forward and backward cost S cells instead of all. can_choose() must hold.
  ///   anchors [S] i64: image * R + anchor of the image; R anchors in (level, y, x, anchor) order
  AnchorOutput forward_at(const std::vector<Tensor>& features, const Tensor& anchors) const;
  /// True if an output depends on one 3x3 patch: there is a single 3x3 convolution.
  bool can_choose() const { return convs_.size() == 1; }

 private:
  std::int64_t anchors_per_cell_;
  std::vector<ConvLayer> convs_;
  ConvLayer objectness_logits_{nullptr}, anchor_deltas_{nullptr};
};
TORCH_MODULE(RpnHead);

}  // namespace detforge
