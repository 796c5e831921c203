#include "detforge/models/rcnn/roi_heads.h"

#include <torch/types.h>

#include "detforge/core/error.h"

namespace detforge {
namespace {

// Fully connected layers read a ROI as a row of [C,H,W].
RoiPoolerOptions box_pooler_options(const RoiHeadsOptions& options) {
  RoiPoolerOptions pooler = options.pooler;
  pooler.contiguous = options.box_head.num_conv == 0;
  return pooler;
}

}  // namespace

RoiHeadsImpl::RoiHeadsImpl(const RoiHeadsOptions& options, const std::vector<FeatureSpec>& features)
    : options_(options),
      inputs_(find_features(features, options.in_features)),
      matcher_(options.matcher),
      pooler_(box_pooler_options(options), strides_of(features, inputs_)) {
  const std::int64_t channels = features[inputs_.front()].channels;
  box_head_ =
      register_module("box_head", BoxHead(options.box_head, channels, options.pooler.resolution));
  box_predictor_ = register_module("box_predictor",
                                   FastRcnnPredictor(options.output, box_head_->out_features()));
  if (options.mask_head) {
    mask_branch_.emplace(*options.mask_head, strides_of(features, inputs_), channels,
                         options.output.num_classes);
    register_module("mask_head", mask_branch_->head());
  }
}

LossMap RoiHeadsImpl::losses(const std::vector<Tensor>& features,
                             const std::vector<Proposals>& proposals,
                             const ImageBatch& images,
                             const std::vector<Targets>& targets,
                             const LossCounts* whole) {
  const std::vector<SampledRois> rois = sample_rois(proposals, images, targets);
  std::vector<Tensor> boxes;
  for (const SampledRois& image : rois) {
    boxes.push_back(image.boxes);
  }
  LossMap losses = fast_rcnn_losses(classify(features, boxes), rois, options_.output, whole);
  if (mask_branch_) {
    losses.push_back(mask_branch_->loss(inputs_of(features), rois, targets, whole));
  }
  return losses;
}

LossCounts RoiHeadsImpl::loss_counts(const std::vector<Proposals>& proposals,
                                     const ImageBatch& images,
                                     const std::vector<Targets>& targets) const {
  const std::vector<SampledRois> rois = sample_rois(proposals, images, targets);
  LossCounts counts{.images = images.count()};
  for (const SampledRois& image : rois) {
    counts.rois += image.labels.numel();
  }
  if (mask_branch_) {
    counts.masks = mask_branch_->count(rois, targets);
  }
  return counts;
}

std::vector<Detections> RoiHeadsImpl::predict_boxes(const std::vector<Tensor>& features,
                                                    const std::vector<Proposals>& proposals,
                                                    const ImageBatch& images) {
  std::vector<Tensor> boxes;
  for (const Proposals& image : proposals) {
    boxes.push_back(image.boxes);
  }
  return fast_rcnn_inference(classify(features, boxes), proposals, images.sizes, options_.output);
}

std::vector<Tensor> RoiHeadsImpl::predict_masks(const std::vector<Tensor>& features,
                                                const std::vector<Detections>& detections) const {
  DETFORGE_CHECK(mask_branch_.has_value(), "the model has no mask head",
                 "set MODEL.MASK_ON True and load weights of a Mask R-CNN");
  std::vector<Tensor> boxes;
  std::vector<Tensor> labels;
  for (const Detections& image : detections) {
    boxes.push_back(image.boxes);
    labels.push_back(image.labels);
  }
  return mask_branch_->predict(inputs_of(features), boxes, labels);
}

std::vector<SampledRois> RoiHeadsImpl::sample_rois(const std::vector<Proposals>& proposals,
                                                   const ImageBatch& images,
                                                   const std::vector<Targets>& targets) const {
  std::vector<SampledRois> rois;
  for (std::size_t i = 0; i < proposals.size(); ++i) {
    rois.push_back(sample_rois(proposals[i].boxes, targets[i], images.rng_keys.at(i)));
  }
  return rois;
}

SampledRois RoiHeadsImpl::sample_rois(const Tensor& proposal_boxes,
                                      const Targets& targets,
                                      std::uint64_t rng_key) const {
  const torch::NoGradGuard no_grad;
  const std::int64_t background = options_.output.num_classes;
  const Tensor boxes =
      options_.append_gt ? torch::cat({proposal_boxes, targets.boxes}) : proposal_boxes;
  const Matches matches = matcher_.match_boxes(targets.boxes, boxes);
  const bool has_gt = targets.boxes.size(0) > 0;
  Tensor labels = torch::full_like(matches.labels, background);
  Tensor gt_boxes = torch::zeros_like(boxes);
  if (has_gt) {
    const Tensor gt_labels = targets.labels.index_select(0, matches.gt_index);
    labels = torch::where(matches.labels == 1, gt_labels, labels);
    labels = torch::where(matches.labels == -1, torch::full_like(labels, -1), labels);
    gt_boxes = targets.boxes.index_select(0, matches.gt_index);
  }
  const SampledIndices sampled = subsample_labels(labels,
                                                  {.batch_size = options_.batch_size_per_image,
                                                   .positive_fraction = options_.positive_fraction,
                                                   .negative_label = background},
                                                  Rng(rng_key, RngPurpose::kRoiSampling));
  const Tensor chosen = torch::cat({sampled.positive, sampled.negative});
  return {.boxes = boxes.index_select(0, chosen),
          .labels = labels.index_select(0, chosen),
          .gt_boxes = gt_boxes.index_select(0, chosen),
          .gt_index = matches.gt_index.index_select(0, chosen)};
}

FastRcnnPredictorImpl::Output RoiHeadsImpl::classify(const std::vector<Tensor>& features,
                                                     const std::vector<Tensor>& boxes) {
  return box_predictor_->forward(box_head_->forward(pooler_.forward(inputs_of(features), boxes)));
}

std::vector<Tensor> RoiHeadsImpl::inputs_of(const std::vector<Tensor>& features) const {
  std::vector<Tensor> maps;
  for (const std::size_t input : inputs_) {
    maps.push_back(features.at(input));
  }
  return maps;
}

}  // namespace detforge
