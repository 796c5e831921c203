#pragma once

#include <cstdint>

#include "detforge/ops/cpu/cpu_features.h"
#include "detforge/ops/cpu/roi_align_geometry.h"

namespace detforge::cpu {

/// Order of a map's values in memory: NCHW (channel planes) or NHWC (channel vectors).
enum class MapLayout { kNchw, kNhwc };

struct RoiAlignShape {
  RoiAlignGeometry geometry;
  std::int64_t images, channels, roi_count;
  MapLayout layout;  ///< of features and pooled values alike
};

/// pooled [R,C,bins_y,bins_x] = average of features [N,C,H,W] over each bin, written completely.
///   rois [R,5]: batch index, x1, y1, x2, y2; finite, batch index in range
void roi_align_forward(const RoiAlignShape& shape,
                       const float* features,
                       const float* rois,
                       float* pooled,
                       KernelBuild build = best_kernel_build());

/// grad_features += the adjoint of roi_align_forward applied to grad_pooled. Each value of
/// grad_features is summed over the ROIs in their order by one thread: the result does not depend
/// on the number of threads.
void roi_align_backward(const RoiAlignShape& shape,
                        const float* grad_pooled,
                        const float* rois,
                        float* grad_features,
                        KernelBuild build = best_kernel_build());

}  // namespace detforge::cpu
