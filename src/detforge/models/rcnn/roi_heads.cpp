#include "detforge/models/rcnn/roi_heads.h"

#include <torch/types.h>

#include "detforge/core/error.h"

namespace detforge {
RoiHeadsImpl::RoiHeadsImpl(const RoiHeadsOptions& options, const std::vector<FeatureSpec>& features)
    : options_(options),
      inputs_(find_features(features, options.in_features)),
      matcher_(options.matcher),
      pooler_(options.pooler, strides_of(features, inputs_)) {
  const std::int64_t channels = features[inputs_.front()].channels;
  box_head_ =
      register_module("box_head", BoxHead(options.box_head, channels, options.pooler.resolution));
  box_predictor_ = register_module("box_predictor",
                                   FastRcnnPredictor(options.output, box_head_->out_features()));
}

LossMap RoiHeadsImpl::losses(const std::vector<Tensor>& features,
                             const std::vector<Proposals>& proposals,
                             const ImageBatch& images,
                             const std::vector<Targets>& targets) {
  std::vector<SampledRois> rois;
  std::vector<Tensor> boxes;
  for (std::size_t i = 0; i < proposals.size(); ++i) {
    rois.push_back(sample_rois(proposals[i].boxes, targets[i], images.rng_keys.at(i)));
    boxes.push_back(rois.back().boxes);
  }
  return fast_rcnn_losses(classify(features, boxes), rois, options_.output);
}

std::vector<Detections> RoiHeadsImpl::predict(const std::vector<Tensor>& features,
                                              const std::vector<Proposals>& proposals,
                                              const ImageBatch& images) {
  std::vector<Tensor> boxes;
  for (const Proposals& image : proposals) {
    boxes.push_back(image.boxes);
  }
  return fast_rcnn_inference(classify(features, boxes), proposals, images.sizes, options_.output);
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
          .gt_boxes = gt_boxes.index_select(0, chosen)};
}

FastRcnnPredictorImpl::Output RoiHeadsImpl::classify(const std::vector<Tensor>& features,
                                                     const std::vector<Tensor>& boxes) {
  std::vector<Tensor> maps;
  for (const std::size_t input : inputs_) {
    maps.push_back(features.at(input));
  }
  return box_predictor_->forward(box_head_->forward(pooler_.forward(maps, boxes)));
}

}  // namespace detforge
