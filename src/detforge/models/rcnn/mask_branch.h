#pragma once

#include <vector>

#include "detforge/models/rcnn/fast_rcnn_output.h"
#include "detforge/models/rcnn/mask_head.h"
#include "detforge/structures/targets.h"

namespace detforge {

/// The mask side of the ROI heads: pools boxes once more, finer, and predicts the mask of each
/// one's class. Its parameters are those of head(), which the owner registers.
class MaskBranch {
 public:
  /// `strides` and `channels` of the maps that boxes are pooled from, see RoiPooler.
  MaskBranch(const MaskHeadOptions& options,
             std::vector<std::int64_t> strides,
             std::int64_t channels,
             std::int64_t num_classes);

  /// Mean binary cross entropy over every cell of the masks of all foreground ROIs, each for its
  /// own class. ROIs whose object has no segmentation are left out. Without any ROI it is 0 and
  /// still connected to every parameter. The mean is over the masks of `whole` if given.
  ///   maps     one [N,C,H,W] per stride
  ///   rois     of each image, see SampledRois; images without objects need no masks
  /// Throws Error if an image has objects but not one segmentation for each.
  /// Ref: He et al., arXiv:1703.06870, sec. 3; Detectron2's mask_rcnn_loss.
  LossTerm loss(const std::vector<Tensor>& maps,
                const std::vector<SampledRois>& rois,
                const std::vector<Targets>& targets,
                const LossCounts* whole = nullptr) const;

  /// How many masks loss() would see. Same Error.
  std::int64_t count(const std::vector<SampledRois>& rois,
                     const std::vector<Targets>& targets) const;

  /// Probabilities [B_i,2S,2S] on a grid over each box, for boxes [B_i,4] and labels [B_i] of each
  /// image. In pieces, so that memory does not grow with the number of boxes. No gradient.
  std::vector<Tensor> predict(const std::vector<Tensor>& maps,
                              const std::vector<Tensor>& boxes,
                              const std::vector<Tensor>& labels) const;

  const MaskHead& head() const { return head_; }

 private:
  std::int64_t num_classes_, resolution_;  // resolution_: of the masks
  RoiPooler pooler_;
  MaskHead head_;
};

}  // namespace detforge
