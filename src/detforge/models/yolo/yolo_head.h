#pragma once

#include <vector>

#include "detforge/models/blocks.h"
#include "detforge/models/yolo/yolo_scale.h"

namespace detforge {

struct YoloHeadOptions {
  std::vector<std::int64_t> widths{1024, 512, 256};  ///< of the 3x3 convolutions, coarsest first
  NormType norm = NormType::kBn;
};

/// A 3x3 convolution and a 1x1 convolution to A*(5+K) channels on each map. State names:
/// convs_bridge.0.*, convs_pred.0.{weight,bias}, ... Ref: mmdetection's YOLOV3Head.
class YoloHeadImpl : public torch::nn::Module {
 public:
  /// `in_channels` of each map. Throws Error unless widths, maps and the layout's scales are
  /// equally many.
  YoloHeadImpl(const YoloHeadOptions& options,
               const std::vector<std::int64_t>& in_channels,
               const YoloLayout& layout);

  /// One map [N,A*(5+K),H,W] per scale.
  std::vector<Tensor> forward(const std::vector<Tensor>& features);

  /// Sets the biases of the last convolutions to yolo_bias_priors(); to be called behind
  /// initialize_weights().
  void initialize_biases(const YoloLayout& layout);

 private:
  std::vector<ConvLayer> bridges_, predictions_;
};
TORCH_MODULE(YoloHead);

/// Biases [A*(5+K)] that make an untrained head predict 8 objects per map of a 608x608 image (conf
/// p = 8 / (608 / stride)^2) and each class with p = 0.01; 0 for x, y, w, h. Ref: mmdetection 3's
/// YOLOV3Head.init_weights; Lin et al., arXiv:1708.02002, sec. 4.1.
Tensor yolo_bias_priors(const YoloScale& scale, std::int64_t num_classes);

}  // namespace detforge
