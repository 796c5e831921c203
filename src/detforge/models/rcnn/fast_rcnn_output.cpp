#include "detforge/models/rcnn/fast_rcnn_output.h"

#include <torch/types.h>

#include "detforge/core/error.h"
#include "detforge/ops/map_type.h"
#include "detforge/ops/nms.h"

namespace detforge {
namespace {

template <typename Member>
Tensor concatenate(const std::vector<SampledRois>& rois, Member member) {
  std::vector<Tensor> parts;
  for (const SampledRois& image : rois) {
    parts.push_back(image.*member);
  }
  return torch::cat(parts);
}

// The deltas [F,4] of each foreground ROI for its own class.
Tensor own_class_deltas(const Tensor& deltas, const Tensor& labels, const Tensor& foreground) {
  const Tensor rows =
      deltas.index_select(0, foreground).view({foreground.size(0), deltas.size(1) / 4, 4});
  if (rows.size(1) == 1) {  // class-agnostic
    return rows.squeeze(1);
  }
  const Tensor own =
      labels.index_select(0, foreground).view({-1, 1, 1}).expand({foreground.size(0), 1, 4});
  return rows.gather(1, own).squeeze(1);
}

// boxes [R,k*4] not clipped, scores [R,K+1]
Detections inference_of_image(const Tensor& boxes,
                              const Tensor& scores,
                              ImageSize size,
                              const FastRcnnOptions& o) {
  const Tensor finite = boxes.isfinite().all(1).logical_and(scores.isfinite().all(1)).unsqueeze(1);
  const Tensor class_scores = scores.slice(1, 0, o.num_classes);
  const Tensor found =
      (class_scores > o.score_threshold).logical_and(finite).nonzero();  // [F,2]: ROI, class
  const Tensor roi = found.select(1, 0);
  const Tensor label = found.select(1, 1);
  const std::int64_t boxes_per_roi = boxes.size(1) / 4;
  const Tensor box_row = boxes_per_roi == 1 ? roi : roi * boxes_per_roi + label;
  const Tensor found_boxes =
      clip_boxes(boxes.reshape({boxes.size(0) * boxes_per_roi, 4}).index_select(0, box_row), size);
  const Tensor found_scores =
      class_scores.reshape({-1}).index_select(0, roi * o.num_classes + label);
  const Tensor keep =
      batched_nms(found_boxes, found_scores, label, o.nms_threshold, o.detections_per_image);
  return {.boxes = found_boxes.index_select(0, keep),
          .scores = found_scores.index_select(0, keep),
          .labels = label.index_select(0, keep)};
}

}  // namespace

FastRcnnPredictorImpl::FastRcnnPredictorImpl(const FastRcnnOptions& options,
                                             std::int64_t in_features) {
  DETFORGE_CHECK(options.num_classes > 0,
                 "the model has " + std::to_string(options.num_classes) + " classes",
                 "set MODEL.ROI_HEADS.NUM_CLASSES to the number of the dataset's categories");
  const std::int64_t boxes = options.class_agnostic_boxes ? 1 : options.num_classes;
  cls_score_ = register_module(
      "cls_score",
      LinearLayer(LinearLayerOptions{.in_features = in_features,
                                     .out_features = options.num_classes + 1,
                                     .init = {.kind = WeightInit::Kind::kNormal, .std = 0.01}}));
  bbox_pred_ = register_module(
      "bbox_pred",
      LinearLayer(LinearLayerOptions{.in_features = in_features,
                                     .out_features = boxes * 4,
                                     .init = {.kind = WeightInit::Kind::kNormal, .std = 0.001}}));
}

FastRcnnPredictorImpl::Output FastRcnnPredictorImpl::forward(const Tensor& box_features) {
  return {widen(cls_score_->forward(box_features)), widen(bbox_pred_->forward(box_features))};
}

LossMap fast_rcnn_losses(const FastRcnnPredictorImpl::Output& predictions,
                         const std::vector<SampledRois>& rois,
                         const FastRcnnOptions& options,
                         const LossCounts* whole) {
  const Tensor labels = concatenate(rois, &SampledRois::labels);
  const Tensor foreground =
      (labels >= 0).logical_and(labels < options.num_classes).nonzero().squeeze(1);
  const Tensor box_loss = box_regression_loss_sum(
      {.deltas = own_class_deltas(predictions.deltas, labels, foreground),
       .reference = concatenate(rois, &SampledRois::boxes).index_select(0, foreground),
       .gt_boxes = concatenate(rois, &SampledRois::gt_boxes).index_select(0, foreground)},
      BoxCoder(options.box_weights), options.box_loss);
  const std::int64_t rois_in_all = whole ? whole->rois : labels.numel();
  const auto count = static_cast<double>(std::max<std::int64_t>(rois_in_all, 1));
  const auto own_rois = static_cast<double>(labels.numel());
  return {
      {"loss_cls", softmax_cross_entropy_loss_sum(predictions.logits, labels) / count, own_rois},
      {"loss_box_reg", box_loss * (options.box_loss_weight / count), own_rois}};
}

std::vector<Detections> fast_rcnn_inference(const FastRcnnPredictorImpl::Output& predictions,
                                            const std::vector<Proposals>& proposals,
                                            const std::vector<ImageSize>& sizes,
                                            const FastRcnnOptions& options) {
  const torch::NoGradGuard no_grad;
  const BoxCoder box_coder(options.box_weights);
  const Tensor scores = predictions.logits.softmax(1);
  std::vector<Detections> detections;
  std::int64_t first = 0;
  for (std::size_t image = 0; image < proposals.size(); ++image) {
    const Tensor& reference = proposals[image].boxes;
    const std::int64_t end = first + reference.size(0);
    const Tensor boxes = box_coder.decode(predictions.deltas.slice(0, first, end), reference);
    detections.push_back(
        inference_of_image(boxes, scores.slice(0, first, end), sizes[image], options));
    first = end;
  }
  return detections;
}

}  // namespace detforge
