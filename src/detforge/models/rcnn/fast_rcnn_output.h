#pragma once

#include <array>
#include <vector>

#include "detforge/models/blocks.h"
#include "detforge/models/box_regression.h"
#include "detforge/models/detector.h"
#include "detforge/models/rcnn/proposals.h"

namespace detforge {

struct FastRcnnOptions {
  std::int64_t num_classes = 80;
  bool class_agnostic_boxes = false;  ///< one box per ROI instead of one per class
  std::array<double, 4> box_weights{10, 10, 5, 5};
  BoxRegressionOptions box_loss{};
  double box_loss_weight = 1.0;
  double score_threshold = 0.05;  ///< detections must score more
  double nms_threshold = 0.5;     ///< IoU within a class
  std::int64_t detections_per_image = 100;
};

/// ROIs of one image chosen for training, with what they should become.
struct SampledRois {
  Tensor boxes;          ///< [R,4] f32 xyxy
  Tensor labels;         ///< [R] i64: class, or num_classes for background
  Tensor gt_boxes;       ///< [R,4] f32: matched ground truth; meaningless for background
  Tensor gt_index = {};  ///< [R] i64: its index, if the mask head needs it
};

/// The last layers of Fast R-CNN. State names: cls_score.*, bbox_pred.*
class FastRcnnPredictorImpl : public torch::nn::Module {
 public:
  FastRcnnPredictorImpl(const FastRcnnOptions& options, std::int64_t in_features);

  struct Output {
    Tensor logits;  ///< [R,K+1], background last
    Tensor deltas;  ///< [R,K*4], or [R,4] if class-agnostic
  };
  /// box_features [R,in_features]; R = 0 is allowed.
  Output forward(const Tensor& box_features);

 private:
  LinearLayer cls_score_{nullptr}, bbox_pred_{nullptr};
};
TORCH_MODULE(FastRcnnPredictor);

/// loss_cls: mean cross entropy over all ROIs. loss_box_reg: sum over foreground ROIs, of the
/// deltas of their own class, divided by the number of all ROIs. The number is that of `whole` if
/// given. Both 0, and connected, without ROIs or foreground. Ref: Girshick, arXiv:1504.08083, Eq.
/// 1; Detectron2's FastRCNNOutputLayers.
LossMap fast_rcnn_losses(const FastRcnnPredictorImpl::Output& predictions,
                         const std::vector<SampledRois>& rois,
                         const FastRcnnOptions& options,
                         const LossCounts* whole = nullptr);

/// Detections of each image: softmax scores above the threshold, boxes decoded and clipped, NMS
/// within each class, the best detections_per_image by falling score. ROIs with a non-finite
/// prediction are left out.
std::vector<Detections> fast_rcnn_inference(const FastRcnnPredictorImpl::Output& predictions,
                                            const std::vector<Proposals>& proposals,
                                            const std::vector<ImageSize>& sizes,
                                            const FastRcnnOptions& options);

}  // namespace detforge
