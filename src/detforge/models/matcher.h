#pragma once

#include <vector>

#include "detforge/core/tensor.h"

namespace detforge {

struct MatcherOptions {
  std::vector<double> iou_thresholds{0.3, 0.7};  ///< rising; they cut [0, 1] into size + 1 ranges
  std::vector<std::int64_t> labels{0, -1,
                                   1};  ///< label of each range: -1 ignored, 0 negative, 1 positive
  bool allow_low_quality = true;        ///< also label the best boxes of every ground truth 1
  /// Detectron2's rule for a ground truth that overlaps no box: every box (IoU 0, the highest) is
  /// its low-quality match. Off, because one box too thin for f32 would turn all anchors positive.
  bool match_without_overlap = false;
};

struct Matches {
  Tensor gt_index;  ///< [N] i64, the ground truth with the highest IoU (lowest index on ties; 0 if
                    ///< there is none)
  Tensor labels;    ///< [N] i64: -1, 0 or 1
};

/// Assigns a ground truth and a label to each box by thresholds on the IoU. Knows nothing of
/// anchors or proposals. With low-quality matches, all boxes whose IoU with a ground truth equals
/// that ground truth's highest (ties included) get label 1; their gt_index stays.
/// Ref: Ren et al., arXiv:1506.01497, sec. 3.1.2; Detectron2's Matcher (docs/deviations.md).
class Matcher {
 public:
  /// Throws Error unless thresholds rise and there is one label more than thresholds.
  explicit Matcher(MatcherOptions options);

  /// iou [G,N] f32, G ground truths, N boxes. G = 0: every box gets labels.front().
  Matches match(const Tensor& iou) const;

  /// The same from gt_boxes [G,4] and boxes [N,4] xyxy, without storing the IoU matrix (best_iou).
  Matches match_boxes(const Tensor& gt_boxes, const Tensor& boxes) const;

 private:
  MatcherOptions options_;
};

}  // namespace detforge
