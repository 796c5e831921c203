#include "detforge/models/yolo/yolo_scale.h"

#include <fmt/format.h>
#include <torch/types.h>

#include "detforge/core/error.h"
#include "detforge/models/yolo/anchor_grid.h"

namespace detforge {

std::vector<YoloScale> yolov3_scales() {
  return {{.stride = 32, .anchors = {{116, 90}, {156, 198}, {373, 326}}},
          {.stride = 16, .anchors = {{30, 61}, {62, 45}, {59, 119}}},
          {.stride = 8, .anchors = {{10, 13}, {16, 30}, {33, 23}}}};
}

Tensor yolo_anchors(const YoloScale& scale, ImageSize grid) {
  const AnchorGrid anchors(scale, grid);
  Tensor boxes = torch::empty({anchors.size(), 4}, torch::kFloat);
  float* out = boxes.data_ptr<float>();
  for (std::int64_t y = 0; y < grid.height; ++y) {
    for (std::int64_t x = 0; x < grid.width; ++x) {
      for (std::size_t a = 0; a < scale.anchors.size(); ++a) {
        const AnchorGrid::Box box = anchors.box({y, x}, a);
        *out++ = box.x1;
        *out++ = box.y1;
        *out++ = box.x2;
        *out++ = box.y2;
      }
    }
  }
  return boxes;
}

void check_yolo_maps(const std::vector<Tensor>& maps, const YoloLayout& layout) {
  DETFORGE_CHECK(
      !maps.empty() && maps.size() == layout.scales.size(),
      fmt::format("{} maps for {} scales of a YOLO head", maps.size(), layout.scales.size()),
      "give one map for each scale");
  for (std::size_t i = 0; i < maps.size(); ++i) {
    const std::int64_t channels = layout.scales[i].anchor_count() * layout.values_per_anchor();
    DETFORGE_CHECK(maps[i].dim() == 4 && maps[i].is_floating_point() &&
                       maps[i].size(0) == maps[0].size(0) && maps[i].size(1) == channels,
                   fmt::format("map {} of a YOLO head is [{}], but {} anchors and {} classes need "
                               "[N,{},H,W]",
                               i, fmt::join(maps[i].sizes(), ","), layout.scales[i].anchor_count(),
                               layout.num_classes, channels),
                   fmt::format("give the last convolution {} channels", channels));
  }
}

std::vector<ImageSize> yolo_grids(const std::vector<Tensor>& maps) {
  std::vector<ImageSize> grids;
  for (const Tensor& map : maps) {
    grids.push_back({map.size(2), map.size(3)});
  }
  return grids;
}

Tensor yolo_rows(const Tensor& map, const YoloScale& scale) {
  const std::int64_t anchors = scale.anchor_count();
  return map.to(torch::kFloat)
      .reshape({map.size(0), anchors, map.size(1) / anchors, map.size(2) * map.size(3)})
      .permute({0, 3, 1, 2});
}

}  // namespace detforge
