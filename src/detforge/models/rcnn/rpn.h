#pragma once

#include <array>
#include <string>
#include <vector>

#include "detforge/models/anchors.h"
#include "detforge/models/backbones/feature_map.h"
#include "detforge/models/box_regression.h"
#include "detforge/models/detector.h"
#include "detforge/models/matcher.h"
#include "detforge/models/rcnn/find_proposals.h"
#include "detforge/models/rcnn/rpn_head.h"
#include "detforge/models/sampling.h"

namespace detforge {

struct RpnOptions {
  std::vector<std::string> in_features{"p2", "p3", "p4", "p5", "p6"};
  AnchorOptions anchors{};
  std::vector<std::int64_t> conv_dims{-1};
  MatcherOptions matcher{
      .iou_thresholds = {0.3, 0.7}, .labels = {0, -1, 1}, .allow_low_quality = true};
  double boundary_threshold = -1;  ///< >= 0: anchors further outside the image are ignored
  SamplingOptions sampling{.batch_size = 256, .positive_fraction = 0.5};
  std::array<double, 4> box_weights{1, 1, 1, 1};
  BoxRegressionOptions box_loss{};
  double loss_weight = 1.0;      ///< of both losses
  double box_loss_weight = 1.0;  ///< of loss_rpn_loc, on top
  ProposalOptions train{.pre_nms_top_k = 2000, .post_nms_top_k = 1000};
  ProposalOptions test{.pre_nms_top_k = 1000, .post_nms_top_k = 1000};
  /// The head is trained at the sampled anchors alone, which gives the same gradients, if
  /// sampling.batch_size is less than this fraction of an image's cells; 0: always at all cells.
  double sparse_fraction = 0.25;
};

/// What the anchors of one image should predict.
struct AnchorTargets {
  Tensor labels;  ///< [R] i64: 1 object, 0 background, -1 not used
  Tensor boxes;   ///< [P,4] f32: the ground truth of each object anchor, in the anchors' order
};

/// The region proposal network. State names: rpn_head.*
/// Ref: Ren et al., arXiv:1506.01497; Detectron2's RPN.
class RpnImpl : public torch::nn::Module {
 public:
  /// `features`: what the backbone gives. Throws Error if in_features are not among them.
  RpnImpl(const RpnOptions& options, const std::vector<FeatureSpec>& features);

  struct Output {
    std::vector<LevelPredictions> levels;
    std::vector<Proposals> proposals;  ///< one per image
    /// The head's input if `levels` carry no gradient: losses() then evaluates the head again, at
    /// the sampled anchors. Else empty.
    std::vector<Tensor> sparse_maps;
  };
  /// `features`: all maps of the backbone, in its order. Uses the train or test options by
  /// is_training().
  Output forward(const ImageBatch& images, const std::vector<Tensor>& features);

  /// loss_rpn_cls and loss_rpn_loc, divided by sampling.batch_size * images, of `whole` if given.
  LossMap losses(const Output& output,
                 const ImageBatch& images,
                 const std::vector<Targets>& targets,
                 const LossCounts* whole = nullptr) const;

  /// Labels and sampling of all anchors [R,4] (levels concatenated) of image `index`.
  AnchorTargets label_anchors(const Tensor& anchors,
                              const ImageBatch& images,
                              std::size_t index,
                              const Targets& targets) const;
  RpnHead& head() { return head_; }

 private:
  bool trains_sparsely(const std::vector<ImageSize>& map_sizes) const;
  RpnHeadImpl::AnchorOutput predictions_at(const Output& output, const Tensor& anchors) const;

  RpnOptions options_;
  std::vector<std::size_t> inputs_;
  AnchorGenerator anchor_generator_;
  BoxCoder box_coder_;
  Matcher matcher_;
  RpnHead head_{nullptr};
};
TORCH_MODULE(Rpn);

}  // namespace detforge
