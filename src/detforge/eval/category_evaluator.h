#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "detforge/eval/accumulate.h"
#include "detforge/eval/coco_eval.h"
#include "detforge/eval/grouping.h"
#include "detforge/eval/matching.h"

namespace detforge {

/// The arrays that evaluate_coco() was given; `iou` and `detection_areas` empty = boxes.
struct EvalArrays {
  const EvalInputs& inputs;
  std::span<const EvalDetection> detections;
  const IouSource& iou;
  std::span<const double> detection_areas;
};

/// Sorts, matches and accumulates one category after the other into a shared result. Holds buffers
/// and borrows its arguments: one per thread, each category in one thread.
class CategoryEvaluator {
 public:
  CategoryEvaluator(const EvalArrays& arrays, EvalGrouping& grouping, CocoEvalResult& result);

  void evaluate(std::size_t k);

  double match_s() const { return match_s_; }
  double accumulate_s() const { return accumulate_s_; }

 private:
  void match_category(std::size_t k);
  void list_kept_detections(std::span<const EvalRecord> detections);
  void match_cell(std::size_t k,
                  std::span<const EvalRecord> detections,
                  std::span<const EvalRecord> objects,
                  std::size_t first);
  void load_cell(std::span<const EvalRecord> detections, std::span<const EvalRecord> objects);
  void fill_ious();

  EvalArrays arrays_;
  EvalGrouping& grouping_;
  CocoEvalResult& result_;
  CellMatcher matcher_;
  CategoryAccumulator accumulator_;
  double match_s_ = 0, accumulate_s_ = 0;
  // The category's detections within max_dets, one image after the other.
  std::vector<double> scores_;
  std::vector<std::uint32_t> ranks_;
  std::vector<MatchFlags> flags_;  // [A,D]
  // The cell (one image) at hand.
  std::vector<std::uint32_t> cell_detections_, cell_objects_;
  std::vector<double> iou_, detection_areas_, object_areas_;
  std::vector<std::uint8_t> is_crowd_, hides_match_;
};

}  // namespace detforge
