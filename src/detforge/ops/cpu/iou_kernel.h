#pragma once

#include <cstddef>

#include "detforge/ops/cpu/cpu_features.h"

namespace detforge::cpu {

/// result[i * b_count + j] = IoU of a[i] and b[j], boxes as xyxy rows; 0 where it is undefined or
/// NaN. Parallel over rows of `a` and blocks of `b` by OpenMP; every result is computed alone.
void pairwise_iou(const float* a,
                  std::size_t a_count,
                  const float* b,
                  std::size_t b_count,
                  float* result,
                  KernelBuild build = best_kernel_build());

}  // namespace detforge::cpu
