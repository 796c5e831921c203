#pragma once

#include <optional>
#include <string>
#include <vector>

#include "detforge/models/backbones/feature_map.h"
#include "detforge/models/matcher.h"
#include "detforge/models/rcnn/box_head.h"
#include "detforge/models/rcnn/fast_rcnn_output.h"
#include "detforge/models/rcnn/mask_branch.h"
#include "detforge/models/rcnn/roi_pooler.h"
#include "detforge/models/sampling.h"

namespace detforge {

struct RoiHeadsOptions {
  std::vector<std::string> in_features{"p2", "p3", "p4", "p5"};
  bool append_gt = true;  ///< ground truth boxes join the proposals while training
  MatcherOptions matcher{.iou_thresholds = {0.5}, .labels = {0, 1}, .allow_low_quality = false};
  std::int64_t batch_size_per_image = 512;  ///< ROIs sampled per image while training
  double positive_fraction = 0.25;
  RoiPoolerOptions pooler{};
  BoxHeadOptions box_head{};
  FastRcnnOptions output{};
  std::optional<MaskHeadOptions> mask_head = {};  ///< Mask R-CNN
};

/// The second stage of Faster R-CNN: classifies proposals and refines their boxes; of Mask R-CNN:
/// and predicts masks of what it found. State names: box_head.*, box_predictor.*, mask_head.*
/// Ref: Detectron2's StandardROIHeads.
class RoiHeadsImpl : public torch::nn::Module {
 public:
  /// `features`: what the backbone gives. Throws Error if in_features are not among them.
  RoiHeadsImpl(const RoiHeadsOptions& options, const std::vector<FeatureSpec>& features);

  /// loss_cls, loss_box_reg and, with a mask head, loss_mask, over ROIs sampled from proposals.
  /// Means over the numbers of `whole` if given.
  LossMap losses(const std::vector<Tensor>& features,
                 const std::vector<Proposals>& proposals,
                 const ImageBatch& images,
                 const std::vector<Targets>& targets,
                 const LossCounts* whole = nullptr);

  /// Images, ROIs and masks that losses() would see.
  LossCounts loss_counts(const std::vector<Proposals>& proposals,
                         const ImageBatch& images,
                         const std::vector<Targets>& targets) const;

  /// Detections without masks.
  std::vector<Detections> predict_boxes(const std::vector<Tensor>& features,
                                        const std::vector<Proposals>& proposals,
                                        const ImageBatch& images);

  /// Masks of the boxes and labels of each image, see MaskBranch::predict. Throws Error without a
  /// mask head.
  std::vector<Tensor> predict_masks(const std::vector<Tensor>& features,
                                    const std::vector<Detections>& detections) const;

  /// Matches the proposals of one image (and its ground truth, if append_gt) and samples;
  /// foreground first.
  SampledRois sample_rois(const Tensor& proposal_boxes,
                          const Targets& targets,
                          std::uint64_t rng_key) const;

  /// Class logits and box deltas of boxes [B_i,4] per image. `features`: all maps of the backbone.
  FastRcnnPredictorImpl::Output classify(const std::vector<Tensor>& features,
                                         const std::vector<Tensor>& boxes);
  const RoiHeadsOptions& options() const { return options_; }

 private:
  std::vector<SampledRois> sample_rois(const std::vector<Proposals>& proposals,
                                       const ImageBatch& images,
                                       const std::vector<Targets>& targets) const;
  std::vector<Tensor> inputs_of(const std::vector<Tensor>& features) const;

  RoiHeadsOptions options_;
  std::vector<std::size_t> inputs_;
  Matcher matcher_;
  RoiPooler pooler_;
  BoxHead box_head_{nullptr};
  FastRcnnPredictor box_predictor_{nullptr};
  std::optional<MaskBranch> mask_branch_;
};
TORCH_MODULE(RoiHeads);

}  // namespace detforge
