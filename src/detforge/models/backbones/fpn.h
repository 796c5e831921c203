#pragma once

#include <string>
#include <vector>

#include "detforge/models/backbones/resnet.h"

namespace detforge {

/// How the top-down path joins the lateral one.
enum class FpnFuse { kSum, kAverage };

struct FpnOptions {
  std::vector<std::string> in_features{"res2", "res3", "res4",
                                       "res5"};  ///< finest first, strides doubling
  std::int64_t out_channels = 256;
  NormType norm = NormType::kNone;
  FpnFuse fuse = FpnFuse::kSum;
};

/// A feature pyramid on a ResNet: images [N,3,H,W], H and W multiples of size_divisibility() ->
/// p2..p5, and p6 (every second pixel of p5 in both directions). State names: bottom_up.*,
/// fpn_lateral2.*, fpn_output2.* Ref: Lin et al., arXiv:1612.03144; Detectron2's FPN with
/// LastLevelMaxPool.
class FpnImpl : public torch::nn::Module {
 public:
  FpnImpl(ResNet bottom_up, const FpnOptions& options);

  /// The maps of features(), finest first.
  std::vector<Tensor> forward(const Tensor& images);
  const std::vector<FeatureSpec>& features() const { return features_; }
  /// Height and width of the images must be multiples of this.
  std::int64_t size_divisibility() const;

 private:
  FpnFuse fuse_;
  ResNet bottom_up_{nullptr};
  std::vector<std::size_t> inputs_;  // which of bottom_up's maps, finest first
  std::vector<ConvLayer> laterals_, outputs_;
  std::vector<FeatureSpec> features_;
};
TORCH_MODULE(Fpn);

}  // namespace detforge
