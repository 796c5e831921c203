#pragma once

#include <algorithm>
#include <cstdint>

#include "detforge/ops/cpu/cpu_features.h"
#include "detforge/ops/cpu/roi_align_geometry.h"

/// One ROI on one channel plane of an NCHW map; rows are the vector dimension.
namespace detforge::cpu {

/// y[i] += a * x[i]
DETFORGE_KERNEL_INLINE void add_scaled(std::int64_t n,
                                       float a,
                                       const float* __restrict x,
                                       float* __restrict y) {
  for (std::int64_t i = 0; i < n; ++i) {
    y[i] += a * x[i];
  }
}

/// line[x] = weighted rows of a bin row, then weighted columns per bin.
DETFORGE_KERNEL_INLINE void pool_plane(
    const RoiAlignGeometry& g, const RoiTaps& roi, const float* plane, float* line, float* pooled) {
  using Tap = AxisTaps::Tap;
  const std::int64_t span = roi.x.last - roi.x.first + 1;
  for (std::int64_t by = 0; by < g.bins_y; ++by) {
    std::fill_n(line, span, 0.0F);
    for (const Tap* ty = roi.y.begin(by); ty != roi.y.end(by); ++ty) {
      add_scaled(span, ty->weight, plane + ty->index * g.width + roi.x.first, line);
    }
    for (std::int64_t bx = 0; bx < g.bins_x; ++bx) {
      float sum = 0.0F;
      for (const Tap* tx = roi.x.begin(bx); tx != roi.x.end(bx); ++tx) {
        sum += tx->weight * line[tx->index - roi.x.first];
      }
      *pooled++ = sum;
    }
  }
}

/// Adjoint of pool_plane: the two steps in reverse order.
DETFORGE_KERNEL_INLINE void spread_plane(
    const RoiAlignGeometry& g, const RoiTaps& roi, const float* pooled, float* line, float* plane) {
  using Tap = AxisTaps::Tap;
  const std::int64_t span = roi.x.last - roi.x.first + 1;
  for (std::int64_t by = 0; by < g.bins_y; ++by) {
    std::fill_n(line, span, 0.0F);
    for (std::int64_t bx = 0; bx < g.bins_x; ++bx) {
      const float value = *pooled++;
      for (const Tap* tx = roi.x.begin(bx); tx != roi.x.end(bx); ++tx) {
        line[tx->index - roi.x.first] += tx->weight * value;
      }
    }
    for (const Tap* ty = roi.y.begin(by); ty != roi.y.end(by); ++ty) {
      add_scaled(span, ty->weight, line, plane + ty->index * g.width + roi.x.first);
    }
  }
}

}  // namespace detforge::cpu
