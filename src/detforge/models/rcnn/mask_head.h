#pragma once

#include <vector>

#include "detforge/models/blocks.h"
#include "detforge/models/rcnn/roi_pooler.h"

namespace detforge {

struct MaskHeadOptions {
  RoiPoolerOptions pooler{.resolution = 14};
  std::int64_t num_conv = 4;
  std::int64_t conv_dim = 256;      ///< of the convolutions and of the upsampling
  NormType norm = NormType::kNone;  ///< of the convolutions
  bool class_agnostic = false;      ///< one mask per ROI instead of one per class
};

/// relu(transposed 2x2 convolution of stride 2): [N,in,H,W] -> [N,out,2H,2W]. Parameters: weight
/// [in,out,2,2], bias [out].
class UpsampleLayerImpl : public torch::nn::Module, public Initializable {
 public:
  UpsampleLayerImpl(std::int64_t in_channels, std::int64_t out_channels);

  /// N = 0 is allowed.
  Tensor forward(const Tensor& input) const;
  void initialize(std::uint64_t key) override;

 private:
  Tensor weight_, bias_;
};
TORCH_MODULE(UpsampleLayer);

/// Convolutions, one upsampling, and one mask per class. State names: mask_fcn1.*, mask_fcn2.*,
/// ..., deconv.*, predictor.*  Ref: He et al., Mask R-CNN, arXiv:1703.06870; Detectron2's
/// MaskRCNNConvUpsampleHead.
class MaskHeadImpl : public torch::nn::Module {
 public:
  /// `channels` of the pooled features.
  MaskHeadImpl(const MaskHeadOptions& options, std::int64_t channels, std::int64_t num_classes);

  /// Mask logits [R,2S,2S] of each ROI's own class: only that class is computed.
  ///   pooled [R,C,S,S]    labels [R] i64, 0..K-1 (any if class-agnostic)    R = 0 is allowed
  Tensor forward(const Tensor& pooled, const Tensor& labels) const;

 private:
  bool class_agnostic_;
  std::vector<ConvLayer> convs_;
  UpsampleLayer deconv_{nullptr};
  ConvLayer predictor_{nullptr};
};
TORCH_MODULE(MaskHead);

}  // namespace detforge
