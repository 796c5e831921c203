#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "detforge/core/tensor.h"
#include "detforge/structures/image.h"

namespace detforge {

/// One output map of a YOLO head: [N,A*(5+K),H,W], for each of A anchors x, y, w, h, conf and K
/// class logits.
struct YoloScale {
  std::int64_t stride = 0;                     ///< image pixels per cell
  std::vector<std::array<double, 2>> anchors;  ///< (width, height) in pixels
  double scale_xy = 1.0;                       ///< Darknet's scale_x_y: 1, or a little more

  std::int64_t anchor_count() const { return static_cast<std::int64_t>(anchors.size()); }
};

/// What the maps of a YOLO head mean; maps[i] belongs to scales[i].
/// The order of "all anchors" everywhere: scale, row of cells, cell, anchor (anchor fastest).
struct YoloLayout {
  std::vector<YoloScale> scales;
  std::int64_t num_classes = 80;

  /// 5 + K: values that each anchor predicts.
  std::int64_t values_per_anchor() const { return 5 + num_classes; }
};

/// Strides 32, 16, 8 with YOLOv3's nine anchors. Ref: Redmon, Farhadi, arXiv:1804.02767.
std::vector<YoloScale> yolov3_scales();

/// The anchors of one scale over a grid of cells: [grid.height * grid.width * A,4] f32 xyxy, cell
/// centres at (i + 0.5) * stride, not clipped. Ref: mmdetection's YOLOAnchorGenerator.
Tensor yolo_anchors(const YoloScale& scale, ImageSize grid);

/// Throws Error unless there is one f32 map [N,A*(5+K),H,W] per scale, N the same for all.
void check_yolo_maps(const std::vector<Tensor>& maps, const YoloLayout& layout);

/// The size in cells of each map.
std::vector<ImageSize> yolo_grids(const std::vector<Tensor>& maps);

/// A map [N,A*(5+K),H,W] as rows of anchors [N,H*W,A,5+K]: a view.
Tensor yolo_rows(const Tensor& map, const YoloScale& scale);

}  // namespace detforge
