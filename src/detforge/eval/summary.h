#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "detforge/eval/coco_eval.h"

namespace detforge {

/// Mean precision over recall thresholds, over IoU threshold `t` or all, over category `k` or all
/// that are defined, in area range `a`. None if no category has anything to judge.
std::optional<double> mean_precision(const CocoEvalResult& result,
                                     std::optional<std::size_t> t,
                                     std::optional<std::size_t> k,
                                     std::size_t a);

/// Mean recall over IoU thresholds and category `k` or all defined, in area range `a` with the m-th
/// max_dets.
std::optional<double> mean_recall(const CocoEvalResult& result,
                                  std::optional<std::size_t> k,
                                  std::size_t a,
                                  std::size_t m);

/// Fills result.summary and the means of result.per_category from precision and recall.
void summarize(CocoEvalResult& result);

/// The value as pycocotools prints it: -1 where there is nothing to judge. For comparison only.
inline double pycocotools_form(const std::optional<double>& value) {
  return value.value_or(-1.0);
}

}  // namespace detforge
