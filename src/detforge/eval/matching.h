#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "detforge/eval/coco_eval.h"

namespace detforge {

/// What became of one detection in one area range; bit t belongs to IoU threshold t.
struct MatchFlags {
  std::uint64_t matched = 0;  ///< it found an object
  std::uint64_t ignored = 0;  ///< it counts neither as right nor as wrong
};

/// The objects and detections of one image and category. Detections by falling score.
struct MatchCell {
  std::span<const double> iou;                ///< [D,G]
  std::span<const double> detection_areas;    ///< [D]
  std::span<const double> object_areas;       ///< [G]
  std::span<const std::uint8_t> is_crowd;     ///< [G]
  std::span<const std::uint8_t> hides_match;  ///< [G]: pycocotools_compat, annotation id 0
};

/// COCO's greedy assignment: each detection in turn takes the free object with the highest IoU at
/// or above the threshold, objects that count before ignored ones; a crowd can be taken any number
/// of times. A detection on an ignored object, or without object and outside the area range, is
/// ignored. Knows nothing of boxes or masks. Holds buffers: one per thread.
class CellMatcher {
 public:
  explicit CellMatcher(std::span<const double> iou_thresholds);

  /// Fills flags[D]; returns the number of objects that count in this area range.
  std::int64_t match(const MatchCell& cell, const AreaRange& range, std::span<MatchFlags> flags);

 private:
  void order_objects(const MatchCell& cell, const AreaRange& range);
  void match_threshold(const MatchCell& cell,
                       std::size_t threshold_index,
                       std::span<MatchFlags> flags);
  std::size_t best_object(const MatchCell& cell, std::size_t detection, double threshold) const;

  std::vector<double> thresholds_;
  std::vector<std::uint32_t> order_;  // objects, those that count first
  std::size_t counted_ = 0;           // so many of them
  std::vector<std::uint8_t> taken_;   // by position in order_
  std::vector<double> best_iou_;      // [D] highest IoU with any object
};

}  // namespace detforge
