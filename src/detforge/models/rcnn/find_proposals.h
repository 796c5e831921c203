#pragma once

#include <vector>

#include "detforge/models/box_coder.h"
#include "detforge/models/rcnn/proposals.h"
#include "detforge/structures/image_batch.h"

namespace detforge {

struct ProposalOptions {
  std::int64_t pre_nms_top_k = 2000;   ///< best anchors kept per level and image
  std::int64_t post_nms_top_k = 1000;  ///< proposals kept per image, over all levels
  double nms_threshold = 0.7;
  double min_size = 0.0;           ///< narrower or lower boxes are removed, in pixels
  bool reject_non_finite = false;  ///< true (training): an infinite or NaN prediction is an Error
};

/// What the RPN head says about every anchor of one level.
struct LevelPredictions {
  Tensor logits;   ///< [N,R] f32, R = height * width * A in (y, x, anchor) order
  Tensor deltas;   ///< [N,R,4] f32
  Tensor anchors;  ///< [R,4] f32
};

/// Per image: the best anchors of each level, decoded, clipped to the image, without empty boxes,
/// after NMS within each level, by falling logit. Non-finite predictions are removed, or refused
/// with the image's name. Ref: Detectron2's find_top_rpn_proposals.
std::vector<Proposals> find_top_proposals(const std::vector<LevelPredictions>& levels,
                                          const ImageBatch& images,
                                          const BoxCoder& box_coder,
                                          const ProposalOptions& options);

}  // namespace detforge
