#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "detforge/ops/cpu/cpu_features.h"

namespace detforge::cpu {

struct NmsInput {
  const float* boxes;                    ///< n x 4, xyxy, finite
  std::span<const float> scores;         ///< n, no NaN
  std::span<const std::int64_t> groups;  ///< n, or empty: all boxes are one group
};

/// Greedy NMS within groups. Returns the kept indices by falling score, ties in input order, at
/// most `max_keep` of them (negative: no limit). A box goes when float(inter / union) >
/// iou_threshold for a better kept box of its group: torchvision's comparison, rounding included.
/// Cost: one pass over the kept boxes of the group for each candidate, 8 at a time with AVX2.
std::vector<std::int64_t> nms(const NmsInput& input,
                              double iou_threshold,
                              std::int64_t max_keep,
                              KernelBuild build = best_kernel_build());

}  // namespace detforge::cpu
