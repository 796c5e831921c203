#pragma once

#include <cstddef>
#include <cstdint>

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

/// What pairwise_iou says of each box, without the matrix.
struct BestIouResult {
  float* iou;                ///< [b_count], the highest with a box of `a`
  std::int64_t* index;       ///< [b_count], the lowest index in `a` that has it
  float* highest;            ///< [a_count], the highest of each box of `a`
  std::uint8_t* is_highest;  ///< [b_count], 1 if the IoU with some a[i] is highest[i], above 0
};

/// `a_count` and `b_count` are positive. Parallel over blocks of `b` by OpenMP. Needs a_count
/// floats for each 512 boxes of `b`.
void best_iou(const float* a,
              std::size_t a_count,
              const float* b,
              std::size_t b_count,
              const BestIouResult& result,
              KernelBuild build = best_kernel_build());

}  // namespace detforge::cpu
