#include "detforge/ops/cpu/roi_align_kernel.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace detforge::cpu {
namespace {

using Tap = AxisTaps::Tap;

/// y[i] += a * x[i]
DETFORGE_KERNEL_INLINE void add_scaled(std::int64_t n,
                                       float a,
                                       const float* __restrict x,
                                       float* __restrict y) {
  for (std::int64_t i = 0; i < n; ++i) {
    y[i] += a * x[i];
  }
}

// The building blocks below work on `lanes` neighbouring channels of one ROI. In NCHW a lane is a
// plane and the vector dimension is the row; in NHWC a row's cells are channel vectors and they are
// the vector dimension.

/// One channel plane, NCHW: line[x] = weighted rows of a bin row, then weighted columns per bin.
DETFORGE_KERNEL_INLINE void pool_plane(
    const RoiAlignGeometry& g, const RoiTaps& roi, const float* plane, float* line, float* pooled) {
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

/// `lanes` channels of one ROI, NHWC. `line` holds span * lanes values; maps have `channels` per
/// cell.
DETFORGE_KERNEL_INLINE void pool_channels(const RoiAlignShape& s,
                                          const RoiTaps& roi,
                                          std::int64_t lanes,
                                          const float* map,
                                          float* line,
                                          float* pooled) {
  const RoiAlignGeometry& g = s.geometry;
  const std::int64_t span = roi.x.last - roi.x.first + 1;
  for (std::int64_t by = 0; by < g.bins_y; ++by) {
    std::fill_n(line, span * lanes, 0.0F);
    for (const Tap* ty = roi.y.begin(by); ty != roi.y.end(by); ++ty) {
      const float* row = map + (ty->index * g.width + roi.x.first) * s.channels;
      for (std::int64_t x = 0; x < span; ++x) {
        add_scaled(lanes, ty->weight, row + x * s.channels, line + x * lanes);
      }
    }
    for (std::int64_t bx = 0; bx < g.bins_x; ++bx, pooled += s.channels) {
      std::fill_n(pooled, lanes, 0.0F);
      for (const Tap* tx = roi.x.begin(bx); tx != roi.x.end(bx); ++tx) {
        add_scaled(lanes, tx->weight, line + (tx->index - roi.x.first) * lanes, pooled);
      }
    }
  }
}

/// Adjoint of pool_channels.
DETFORGE_KERNEL_INLINE void spread_channels(const RoiAlignShape& s,
                                            const RoiTaps& roi,
                                            std::int64_t lanes,
                                            const float* pooled,
                                            float* line,
                                            float* map) {
  const RoiAlignGeometry& g = s.geometry;
  const std::int64_t span = roi.x.last - roi.x.first + 1;
  for (std::int64_t by = 0; by < g.bins_y; ++by) {
    std::fill_n(line, span * lanes, 0.0F);
    for (std::int64_t bx = 0; bx < g.bins_x; ++bx, pooled += s.channels) {
      for (const Tap* tx = roi.x.begin(bx); tx != roi.x.end(bx); ++tx) {
        add_scaled(lanes, tx->weight, pooled, line + (tx->index - roi.x.first) * lanes);
      }
    }
    for (const Tap* ty = roi.y.begin(by); ty != roi.y.end(by); ++ty) {
      float* row = map + (ty->index * g.width + roi.x.first) * s.channels;
      for (std::int64_t x = 0; x < span; ++x) {
        add_scaled(lanes, ty->weight, line + x * lanes, row + x * s.channels);
      }
    }
  }
}

enum class Direction { kForward, kBackward };

/// Pointers of one call: forward reads the map and writes pooled values, backward the other way
/// round.
template <Direction kDirection>
struct Buffers;
template <>
struct Buffers<Direction::kForward> {
  const float* map;
  float* pooled;
};
template <>
struct Buffers<Direction::kBackward> {
  float* map;
  const float* pooled;
};

/// Channels [first, first + lanes) of every ROI of one image, in the order of the ROIs.
template <Direction kDirection>
DETFORGE_KERNEL_INLINE void process_block(const RoiAlignShape& s,
                                          const std::vector<RoiTaps>& rois,
                                          std::int64_t image,
                                          std::int64_t first,
                                          std::int64_t lanes,
                                          float* line,
                                          Buffers<kDirection> buffers) {
  const RoiAlignGeometry& g = s.geometry;
  const std::int64_t cells = g.height * g.width, bins = g.bins_y * g.bins_x;
  const bool planes = s.layout == MapLayout::kNchw;
  const auto map = buffers.map + (image * s.channels * cells + first * (planes ? cells : 1));
  for (std::size_t r = 0; r < rois.size(); ++r) {
    if (rois[r].image != image || rois[r].empty()) {
      continue;
    }
    const auto pooled = buffers.pooled + static_cast<std::int64_t>(r) * s.channels * bins +
                        first * (planes ? bins : 1);
    if (planes) {
      for (std::int64_t c = 0; c < lanes; ++c) {
        if constexpr (kDirection == Direction::kForward) {
          pool_plane(g, rois[r], map + c * cells, line, pooled + c * bins);
        } else {
          spread_plane(g, rois[r], pooled + c * bins, line, map + c * cells);
        }
      }
    } else if constexpr (kDirection == Direction::kForward) {
      pool_channels(s, rois[r], lanes, map, line, pooled);
    } else {
      spread_channels(s, rois[r], lanes, pooled, line, map);
    }
  }
}

template <Direction kDirection>
using BlockFunction = void (*)(const RoiAlignShape&,
                               const std::vector<RoiTaps>&,
                               std::int64_t,
                               std::int64_t,
                               std::int64_t,
                               float*,
                               Buffers<kDirection>);

template <Direction kDirection>
void process_block_portable(const RoiAlignShape& s,
                            const std::vector<RoiTaps>& rois,
                            std::int64_t image,
                            std::int64_t first,
                            std::int64_t lanes,
                            float* line,
                            Buffers<kDirection> buffers) {
  process_block<kDirection>(s, rois, image, first, lanes, line, buffers);
}

template <Direction kDirection>
DETFORGE_TARGET_AVX2 void process_block_avx2(const RoiAlignShape& s,
                                             const std::vector<RoiTaps>& rois,
                                             std::int64_t image,
                                             std::int64_t first,
                                             std::int64_t lanes,
                                             float* line,
                                             Buffers<kDirection> buffers) {
  process_block<kDirection>(s, rois, image, first, lanes, line, buffers);
}

std::vector<RoiTaps> make_all_taps(const RoiAlignShape& s, const float* rois) {
  std::vector<RoiTaps> taps(static_cast<std::size_t>(s.roi_count));
#pragma omp parallel for schedule(static)
  for (std::int64_t r = 0; r < s.roi_count; ++r) {
    make_roi_taps(s.geometry, rois + r * 5, taps[static_cast<std::size_t>(r)]);
  }
  return taps;
}

/// Units of parallel work are (image, block of channels): they share nothing, in either direction.
template <Direction kDirection>
void process(const RoiAlignShape& s,
             const float* rois,
             Buffers<kDirection> buffers,
             KernelBuild build) {
  const std::vector<RoiTaps> taps = make_all_taps(s, rois);
  const BlockFunction<kDirection> block = build == KernelBuild::kAvx2
                                              ? process_block_avx2<kDirection>
                                              : process_block_portable<kDirection>;
  const std::int64_t lanes = s.layout == MapLayout::kNchw ? 4 : 64;
  const std::int64_t blocks = (s.channels + lanes - 1) / lanes;
#pragma omp parallel
  {
    std::vector<float> line(static_cast<std::size_t>(s.geometry.width * lanes));
#pragma omp for collapse(2) schedule(dynamic)
    for (std::int64_t image = 0; image < s.images; ++image) {
      for (std::int64_t b = 0; b < blocks; ++b) {
        const std::int64_t first = b * lanes;
        block(s, taps, image, first, std::min(lanes, s.channels - first), line.data(), buffers);
      }
    }
  }
}

}  // namespace

void roi_align_forward(const RoiAlignShape& shape,
                       const float* features,
                       const float* rois,
                       float* pooled,
                       KernelBuild build) {
  const RoiAlignGeometry& g = shape.geometry;
  std::fill_n(pooled, shape.roi_count * shape.channels * g.bins_y * g.bins_x,
              0.0F);  // ROIs off the map
  process<Direction::kForward>(shape, rois, {features, pooled}, build);
}

void roi_align_backward(const RoiAlignShape& shape,
                        const float* grad_pooled,
                        const float* rois,
                        float* grad_features,
                        KernelBuild build) {
  process<Direction::kBackward>(shape, rois, {grad_features, grad_pooled}, build);
}

}  // namespace detforge::cpu
