#pragma once

#include <vector>

#include "detforge/models/backbones/feature_map.h"
#include "detforge/models/blocks.h"

namespace detforge {

class DetectionBlock;

struct YoloNeckOptions {
  std::vector<std::int64_t> widths{512, 256, 128};  ///< of each output, coarsest first
  NormType norm = NormType::kBn;
};

/// YOLOv3's way from the backbone's maps to the heads, coarsest first: five convolutions on each
/// map, which is joined by the result of the coarser one (1x1 convolution, upsampled twice, in
/// front of the map's own channels). State names: detect1.conv1..5.*, conv1.*, detect2.*, ...
/// Ref: mmdetection's YOLOV3Neck.
class YoloNeckImpl : public torch::nn::Module {
 public:
  /// `below`: the backbone's maps, finest first, strides doubling. Throws Error unless there is one
  /// width for each.
  YoloNeckImpl(const YoloNeckOptions& options, const std::vector<FeatureSpec>& below);

  /// The backbone's maps, finest first -> one map [N,widths[i],H,W] each, coarsest first.
  std::vector<Tensor> forward(const std::vector<Tensor>& features);

 private:
  std::vector<std::shared_ptr<DetectionBlock>> blocks_;  // coarsest first
  std::vector<ConvLayer> laterals_;                      // before blocks_[i + 1]
};
TORCH_MODULE(YoloNeck);

}  // namespace detforge
