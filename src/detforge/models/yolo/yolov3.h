#pragma once

#include <cstdint>
#include <vector>

#include "detforge/models/backbones/darknet53.h"
#include "detforge/models/detector.h"
#include "detforge/models/yolo/yolo_head.h"
#include "detforge/models/yolo/yolo_loss.h"
#include "detforge/models/yolo/yolo_neck.h"
#include "detforge/models/yolo/yolo_output.h"

namespace detforge {

/// Every number of the model; the defaults are mmdetection's yolov3_d53.
struct YoloV3Options {
  Darknet53Options darknet{};
  YoloNeckOptions neck{};
  YoloHeadOptions head{};
  YoloLayout layout{.scales = yolov3_scales()};
  YoloLossOptions loss{};
  YoloOutputOptions output{};
};

/// YOLOv3 on Darknet-53. State names as mmdetection's: backbone.*, neck.*, bbox_head.*
///   YoloV3 model({.layout = {.scales = yolov3_scales(), .num_classes = 3}}, seed);
///   LossMap losses = model.losses(images, targets);
/// Images are RGB / 255 (mean 0, std 255), padded with 0 to multiples of 32. Ref: Redmon, Farhadi,
/// arXiv:1804.02767; numerics as in mmdetection 3.3. Not thread-safe. An Error leaves the weights
/// as they were.
class YoloV3 final : public Detector {
 public:
  /// Weights start from `seed` alone (see initialize_weights); load a backbone afterwards.
  YoloV3(const YoloV3Options& options, std::uint64_t seed);

  /// loss_cls, loss_conf, loss_xy, loss_wh: sums, which no number of images divides, so that
  /// `whole` changes nothing.
  LossMap losses(const ImageBatch& images,
                 const std::vector<Targets>& targets,
                 const LossCounts* whole = nullptr) override;
  std::vector<Detections> predict(const ImageBatch& images) override;

  /// The head's map of each scale [N,A*(5+K),H,W]; images [N,3,H,W].
  std::vector<Tensor> forward(const Tensor& images);

  /// Images must be padded to multiples of this.
  std::int64_t size_divisibility() const;
  const YoloV3Options& options() const { return options_; }

  Darknet53& backbone() { return backbone_; }
  YoloNeck& neck() { return neck_; }

 private:
  YoloV3Options options_;
  Darknet53 backbone_{nullptr};
  YoloNeck neck_{nullptr};
  YoloHead bbox_head_{nullptr};
};

}  // namespace detforge
