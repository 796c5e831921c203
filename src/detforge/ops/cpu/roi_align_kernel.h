#pragma once

#include <cstdint>
#include <vector>

#include "detforge/ops/cpu/cpu_features.h"
#include "detforge/ops/cpu/map_data.h"
#include "detforge/ops/cpu/roi_align_geometry.h"

namespace detforge::cpu {

/// Order of a map's values in memory: NCHW (channel planes) or NHWC (channel vectors).
enum class MapLayout { kNchw, kNhwc };

struct RoiAlignShape {
  std::vector<RoiAlignGeometry> levels;  ///< one per map; they cut ROIs into the same bins
  std::int64_t images, channels, roi_count;
  MapLayout maps;
  MapLayout pooled;  ///< kNhwc only if the maps are kNhwc
};

/// [R,5]: batch index, x1, y1, x2, y2; finite, batch index in range; and the level that each one
/// is pooled from, nullptr if there is only one.
struct RoiList {
  const float* rois;
  const std::int64_t* levels;
};

/// pooled [R,C,bins_y,bins_x] = average over each bin of the map of the ROI's level, written
/// completely. `maps`: [N,C,H,W] of each level, stored as `pooled`; NCHW maps are f32.
void roi_align_forward(const RoiAlignShape& shape,
                       const std::vector<ConstMap>& maps,
                       const RoiList& rois,
                       const Map& pooled,
                       KernelBuild build = best_kernel_build());

/// grad_maps = the adjoint of roi_align_forward applied to grad_pooled, written completely.
/// grad_pooled has the layout of the maps, not shape.pooled: see roi_align_rows_to_channels(). Each
/// value of grad_maps is summed over the ROIs in their order by one thread: the result does not
/// depend on the number of threads.
void roi_align_backward(const RoiAlignShape& shape,
                        const float* grad_pooled,
                        const RoiList& rois,
                        const std::vector<Map>& grad_maps,
                        KernelBuild build = best_kernel_build());

/// Copies pooled values [R,C,bins] from NCHW to NHWC.
void roi_align_rows_to_channels(const RoiAlignShape& shape, const float* rows, float* channels);

}  // namespace detforge::cpu
