#pragma once

#include <cstdint>
#include <vector>

#include "detforge/models/darknet/darknet_network.h"
#include "detforge/models/detector.h"
#include "detforge/models/yolo/yolo_loss.h"
#include "detforge/models/yolo/yolo_output.h"

namespace detforge {

struct DarknetDetectorOptions {
  DarknetCfg cfg;                                 ///< read_darknet_cfg()
  YoloLossOptions loss = darknet_loss_options();  ///< the [yolo]'s ignore_thresh takes the place of
                                                  ///< darknet.ignore_iou
  YoloOutputOptions output{.selection = YoloSelection::kProduct, .score_threshold = 0.005};
};

/// A detector that a Darknet .cfg file describes: its [yolo] layers end in the loss and the output
/// of YOLOv3. Images are RGB / 255. State names: layers.N.conv.*, layers.N.bn.* for [convolutional]
/// layer N as Darknet counts.
///   DarknetDetector model({.cfg = read_darknet_cfg("yolov3.cfg")}, seed);
///   load_weights(model, "yolov3.weights");
/// Not thread-safe. An Error leaves the weights as they were.
class DarknetDetector final : public Detector {
 public:
  /// Weights start from `seed` alone (see initialize_weights).
  DarknetDetector(DarknetDetectorOptions options, std::uint64_t seed);

  /// loss_cls, loss_conf, loss_xy, loss_wh: sums, so `whole` changes nothing.
  LossMap losses(const ImageBatch& images,
                 const std::vector<Targets>& targets,
                 const LossCounts* whole = nullptr) override;
  std::vector<Detections> predict(const ImageBatch& images) override;

  /// Images must be padded to multiples of this.
  std::int64_t size_divisibility() const { return cfg().size_divisibility(); }
  std::int64_t num_classes() const { return layout_.num_classes; }
  const DarknetCfg& cfg() const { return layers_->cfg(); }
  DarknetNetwork& layers() { return layers_; }

  /// The maps before the [yolo] layers, for any number of images.
  std::vector<Tensor> maps(const ImageBatch& images);

 private:
  YoloLossOptions loss_;
  YoloOutputOptions output_;
  YoloLayout layout_;
  DarknetNetwork layers_{nullptr};
};

}  // namespace detforge
