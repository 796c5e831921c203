#pragma once

#include <cstdint>
#include <vector>

#include "detforge/models/yolo/yolo_scale.h"

namespace detforge {

/// Which object each anchor of one image learns.
struct YoloAssignment {
  static constexpr std::int64_t kIgnored = -1;
  static constexpr std::int64_t kNegative = 0;
  /// For all anchors: kIgnored, kNegative, or k > 0: positive for object k - 1.
  std::vector<std::int64_t> gt_of_anchor;

  struct Match {
    std::int64_t anchor = 0, gt = 0;
  };
  /// Objects whose positive anchor a later object took: their class is one more of that anchor.
  std::vector<Match> further_classes = {};
};

}  // namespace detforge
