#pragma once

#include <cstdint>
#include <vector>

#include "detforge/models/backbones/fpn.h"
#include "detforge/models/detector.h"
#include "detforge/models/rcnn/roi_heads.h"
#include "detforge/models/rcnn/rpn.h"

namespace detforge {

/// Every number of the model; the defaults are Detectron2's faster_rcnn_R_50_FPN.
struct FasterRcnnOptions {
  ResNetOptions resnet{};
  FpnOptions fpn{};
  RpnOptions rpn{};
  RoiHeadsOptions roi_heads{};
};

/// Faster R-CNN on a feature pyramid; Mask R-CNN if roi_heads.mask_head is set. State names:
/// backbone.*, proposal_generator.*, roi_heads.*
///   FasterRcnn model({.roi_heads = {.output = {.num_classes = 3}}}, seed);
///   LossMap losses = model.losses(images, targets);
/// Ref: Ren et al., arXiv:1506.01497; He et al., arXiv:1703.06870; numerics as in Detectron2's
/// GeneralizedRCNN. Not thread-safe. An Error leaves the weights as they were.
class FasterRcnn final : public Detector {
 public:
  /// Weights start from `seed` alone (see initialize_weights); load a backbone afterwards.
  FasterRcnn(const FasterRcnnOptions& options, std::uint64_t seed);

  /// loss_cls, loss_box_reg, loss_mask (with a mask head), loss_rpn_cls, loss_rpn_loc.
  LossMap losses(const ImageBatch& images,
                 const std::vector<Targets>& targets,
                 const LossCounts* whole = nullptr) override;
  /// Runs the backbone and the RPN without gradient, and samples: about a quarter of a training
  /// step. Running statistics of normalisation layers stay as they are.
  LossCounts loss_counts(const ImageBatch& images, const std::vector<Targets>& targets) override;
  std::vector<Detections> predict(const ImageBatch& images) override;
  std::vector<Detections> predict_boxes(const ImageBatch& images) override;
  bool has_masks() const override { return roi_heads_->options().mask_head.has_value(); }
  std::vector<Tensor> predict_masks(const ImageBatch& images,
                                    const std::vector<Detections>& detections) override;

  /// Images must be padded to multiples of this.
  std::int64_t size_divisibility() const { return backbone_->size_divisibility(); }

  Fpn& backbone() { return backbone_; }
  Rpn& proposal_generator() { return proposal_generator_; }
  RoiHeads& roi_heads() { return roi_heads_; }

 private:
  std::vector<Detections> predict_boxes(const ImageBatch& images,
                                        const std::vector<Tensor>& features);
  void check(const ImageBatch& images) const;
  void check(const ImageBatch& images, const std::vector<Targets>& targets) const;

  std::int64_t num_classes_;
  Fpn backbone_{nullptr};
  Rpn proposal_generator_{nullptr};
  RoiHeads roi_heads_{nullptr};
};

}  // namespace detforge
