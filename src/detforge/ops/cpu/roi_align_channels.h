#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "detforge/ops/cpu/cpu_features.h"
#include "detforge/ops/cpu/float_vector.h"
#include "detforge/ops/cpu/roi_align_geometry.h"

/// One ROI on an NHWC map: the channels of a cell are the vector dimension, and those of
/// neighbouring cells follow each other in memory.
namespace detforge::cpu {

/// out[i] = sum over the taps of weight * base[index * stride + i], i < n
template <int kLanes>
DETFORGE_KERNEL_INLINE void weighted_sum(const AxisTaps::Tap* begin,
                                         const AxisTaps::Tap* end,
                                         const float* base,
                                         std::int64_t stride,
                                         std::int64_t n,
                                         float* out) {
  using Vector = typename FloatVector<kLanes>::Type;
  using InMemory = typename FloatVector<kLanes>::InMemory;
  std::int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    Vector sum[4] = {};
    for (const AxisTaps::Tap* tap = begin; tap != end; ++tap) {
      const InMemory* x = reinterpret_cast<const InMemory*>(base + tap->index * stride + i);
      for (int v = 0; v < 4; ++v) {
        sum[v] += tap->weight * x[v];
      }
    }
    for (int v = 0; v < 4; ++v) {
      reinterpret_cast<InMemory*>(out + i)[v] = sum[v];
    }
  }
  for (; i < n; ++i) {
    float sum = 0.0F;
    for (const AxisTaps::Tap* tap = begin; tap != end; ++tap) {
      sum += tap->weight * base[tap->index * stride + i];
    }
    out[i] = sum;
  }
}

/// y[i] += a * x[i], i < n
template <int kLanes>
DETFORGE_KERNEL_INLINE void add_scaled_vectors(std::int64_t n, float a, const float* x, float* y) {
  using Vector = typename FloatVector<kLanes>::Type;
  using InMemory = typename FloatVector<kLanes>::InMemory;
  std::int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    const InMemory* from = reinterpret_cast<const InMemory*>(x + i);
    InMemory* to = reinterpret_cast<InMemory*>(y + i);
    const Vector sum[4] = {to[0] + a * from[0], to[1] + a * from[1], to[2] + a * from[2],
                           to[3] + a * from[3]};
    for (int v = 0; v < 4; ++v) {
      to[v] = sum[v];
    }
  }
  for (; i < n; ++i) {
    y[i] += a * x[i];
  }
}

/// pooled [bins,C], rows `pooled_stride` apart, of a ROI that is not empty. `line`: map width * C
/// values.
template <int kLanes>
DETFORGE_KERNEL_INLINE void pool_channels(const RoiAlignGeometry& g,
                                          std::int64_t channels,
                                          const RoiTaps& roi,
                                          const float* map,
                                          float* line,
                                          float* pooled,
                                          std::int64_t pooled_stride) {
  const std::int64_t span = roi.x.last - roi.x.first + 1;
  for (std::int64_t by = 0; by < g.bins_y; ++by) {
    weighted_sum<kLanes>(roi.y.begin(by), roi.y.end(by), map + roi.x.first * channels,
                         g.width * channels, span * channels, line);
    for (std::int64_t bx = 0; bx < g.bins_x; ++bx, pooled += pooled_stride) {
      weighted_sum<kLanes>(roi.x.begin(bx), roi.x.end(bx), line - roi.x.first * channels, channels,
                           channels, pooled);
    }
  }
}

/// Adjoint of pool_channels for the rows [first_row, end_row) of the map.
template <int kLanes>
DETFORGE_KERNEL_INLINE void spread_channels(const RoiAlignGeometry& g,
                                            std::int64_t channels,
                                            const RoiTaps& roi,
                                            std::int64_t first_row,
                                            std::int64_t end_row,
                                            const float* pooled,
                                            float* line,
                                            float* map) {
  using Tap = AxisTaps::Tap;
  const std::int64_t span = roi.x.last - roi.x.first + 1;
  for (std::int64_t by = 0; by < g.bins_y; ++by, pooled += g.bins_x * channels) {
    const auto is_here = [&](const Tap& tap) {
      return tap.index >= first_row && tap.index < end_row;
    };
    if (!std::any_of(roi.y.begin(by), roi.y.end(by), is_here)) {
      continue;
    }
    std::fill_n(line, span * channels, 0.0F);
    for (std::int64_t bx = 0; bx < g.bins_x; ++bx) {
      for (const Tap* tx = roi.x.begin(bx); tx != roi.x.end(bx); ++tx) {
        add_scaled_vectors<kLanes>(channels, tx->weight, pooled + bx * channels,
                                   line + (tx->index - roi.x.first) * channels);
      }
    }
    for (const Tap* ty = roi.y.begin(by); ty != roi.y.end(by); ++ty) {
      if (is_here(*ty)) {
        add_scaled_vectors<kLanes>(span * channels, ty->weight, line,
                                   map + (ty->index * g.width + roi.x.first) * channels);
      }
    }
  }
}

}  // namespace detforge::cpu
