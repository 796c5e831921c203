#pragma once

#include <cstdint>
#include <vector>

#include "detforge/eval/coco_eval.h"

namespace detforge::test {

/// COCO's metrics, written from their definition with no regard to speed: one independent pass for
/// every (IoU threshold, category, area range, max_dets). -1 where undefined. Thresholds as in
/// pycocotools by default.
struct NaiveResult {
  std::vector<double> precision;  ///< [T,R,K,A], largest max_dets
  std::vector<double> recall;     ///< [T,K,A,M]
};
NaiveResult naive_coco_eval(const EvalInputs& inputs,
                            const std::vector<EvalDetection>& detections,
                            const CocoEvalOptions& options);

}  // namespace detforge::test
