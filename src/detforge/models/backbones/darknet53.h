#pragma once

#include <array>
#include <vector>

#include "detforge/models/backbones/feature_map.h"
#include "detforge/models/blocks.h"

namespace detforge {

class DarknetBlock;

struct Darknet53Options {
  std::int64_t stem_channels = 32;           ///< doubles with each stage: 64, 128, ... 1024
  std::array<int, 5> blocks{1, 2, 8, 8, 4};  ///< residual blocks of each stage
  NormType norm = NormType::kEvalBn;         ///< kBn: mmdetection's norm_eval False
  bool checkpoint = false;  ///< backward computes each stage again (ops/activation_checkpoint.h)
  int frozen_stages = -1;   ///< freezes the first of conv1, conv_res_block1, ..., 5; -1 and 0: none
};

/// Darknet-53 without classifier: images [N,3,H,W] -> maps of strides 8, 16, 32, whose H and W are
/// rounded up. A 3x3 stem and five stages: a 3x3 convolution of stride 2, then blocks of 1x1 and
/// 3x3 whose input is added behind the last activation. State names as mmdetection's: conv1.conv.*,
/// conv1.bn.*, conv_res_block1.conv.*, conv_res_block1.res0.{conv1,conv2}.*
/// Frozen parts: parameters without gradient, and BN becomes frozen BN.
/// Ref: Redmon, Farhadi, arXiv:1804.02767; mmdetection's Darknet.
class Darknet53Impl : public torch::nn::Module {
 public:
  /// Throws Error for a width, number of blocks or of frozen stages that cannot be.
  explicit Darknet53Impl(const Darknet53Options& options);

  /// The feature maps of features(), in that order.
  std::vector<Tensor> forward(const Tensor& images);
  /// conv_res_block3, 4, 5.
  const std::vector<FeatureSpec>& features() const { return features_; }

 private:
  struct Stage {
    std::shared_ptr<torch::nn::Module> module;  ///< holds the layers
    ConvLayer conv{nullptr};
    std::vector<std::shared_ptr<DarknetBlock>> blocks;

    Tensor forward(const Tensor& input) const;
  };
  Stage make_stage(const Darknet53Options& options, std::size_t index);

  bool checkpoint_;
  ConvLayer stem_{nullptr};
  std::vector<Stage> stages_;
  std::vector<FeatureSpec> features_;
};
TORCH_MODULE(Darknet53);

}  // namespace detforge
