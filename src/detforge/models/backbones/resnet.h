#pragma once

#include <string>
#include <vector>

#include "detforge/models/backbones/feature_map.h"
#include "detforge/models/blocks.h"

namespace detforge {

class ResidualBlock;

struct ResNetOptions {
  int depth = 50;  ///< 18, 34 (basic blocks), 50, 101, 152 (bottlenecks)
  NormType norm = NormType::kFrozenBn;
  std::int64_t stem_out_channels = 64;
  std::int64_t res2_out_channels =
      256;                            ///< doubles with each stage; must be 64 for depth 18 and 34
  std::int64_t num_groups = 1;        ///< of the 3x3 convolutions (ResNeXt)
  std::int64_t width_per_group = 64;  ///< res2's bottleneck width is num_groups * width_per_group
  bool stride_in_1x1 =
      true;                 ///< stride in the first 1x1 (MSRA weights) or in the 3x3 (torchvision)
  int res5_dilation = 1;    ///< 1, or 2: res5 keeps res4's resolution
  bool checkpoint = false;  ///< backward computes each stage again (ops/activation_checkpoint.h)
  int freeze_at = 2;        ///< freezes the stem (1) and stages res2.. (2..5); 0: nothing
  std::vector<std::string> out_features{"res2", "res3", "res4", "res5"};
};

/// A residual network without classifier: images [N,3,H,W] -> feature maps of strides 4 to 32.
/// State names as Detectron2's: stem.conv1.*, res2.0.{shortcut,conv1,conv2,conv3}.*
/// Frozen parts: parameters without gradient, and BN becomes frozen BN.
/// Ref: He et al., arXiv:1512.03385; Detectron2's build_resnet_backbone.
class ResNetImpl : public torch::nn::Module {
 public:
  /// Throws Error for a depth, width or dilation that does not exist.
  explicit ResNetImpl(const ResNetOptions& options);

  /// The feature maps of features(), in that order.
  std::vector<Tensor> forward(const Tensor& images);
  const std::vector<FeatureSpec>& features() const { return features_; }

 private:
  struct Stage {
    std::shared_ptr<torch::nn::Module> module;  ///< holds the blocks
    std::vector<std::shared_ptr<ResidualBlock>> blocks;
    bool is_output = false;

    Tensor forward(Tensor x) const;
  };
  void add_stem(const ResNetOptions& options);
  void add_stages(const ResNetOptions& options);

  bool checkpoint_;
  ConvLayer stem_{nullptr};
  std::vector<Stage> stages_;
  std::vector<FeatureSpec> features_;
};
TORCH_MODULE(ResNet);

}  // namespace detforge
