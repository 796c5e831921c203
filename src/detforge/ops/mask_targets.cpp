#include "detforge/ops/mask_targets.h"

#include <algorithm>
#include <string>

#include <ATen/Parallel.h>
#include <ATen/record_function.h>
#include <torch/types.h>

#include "detforge/core/error.h"
#include "detforge/ops/cpu/crop_rle_kernel.h"
#include "detforge/structures/polygon_raster.h"
#include "detforge/structures/rle.h"
#include "detforge/structures/rle_spans.h"

namespace detforge {
namespace {

void check(const std::vector<Segmentation>& masks,
           const Tensor& boxes,
           const Tensor& gt_index,
           std::int64_t resolution) {
  DETFORGE_CHECK(boxes.dim() == 2 && boxes.size(1) == 4 && gt_index.dim() == 1 &&
                     gt_index.size(0) == boxes.size(0) && resolution > 0,
                 "mask targets need boxes [R,4], gt_index [R] and a positive resolution",
                 "give the index of one object for each box");
  DETFORGE_CHECK(boxes.scalar_type() == torch::kFloat && gt_index.scalar_type() == torch::kLong,
                 "mask targets need f32 boxes and i64 indices", "convert them");
  if (boxes.size(0) > 0) {
    DETFORGE_CHECK(boxes.isfinite().all().item<bool>(), "a box to cut a mask with is not finite",
                   "leave such boxes out of training");
    DETFORGE_CHECK(
        gt_index.min().item<std::int64_t>() >= 0 &&
            gt_index.max().item<std::int64_t>() < static_cast<std::int64_t>(masks.size()),
        "an object index of the mask targets is outside 0.." +
            std::to_string(static_cast<std::int64_t>(masks.size()) - 1),
        "load a mask for each ground truth box");
  }
}

// Detectron2's rasterize_polygons_within_box: the box's sides in f32, everything else in f64. The
// target is 0 before.
void draw_polygons(const std::vector<std::vector<double>>& polygons,
                   const float* box,
                   std::int64_t resolution,
                   float* target) {
  const double x1 = box[0], y1 = box[1];
  const double width = box[2] - box[0], height = box[3] - box[1];
  const double scale_x = static_cast<double>(resolution) / std::max(width, 0.1);
  const double scale_y = static_cast<double>(resolution) / std::max(height, 0.1);
  std::vector<std::vector<double>> scaled = polygons;
  for (std::vector<double>& xy : scaled) {
    for (std::size_t i = 0; i < xy.size(); ++i) {
      xy[i] = i % 2 == 0 ? (xy[i] - x1) * scale_x : (xy[i] - y1) * scale_y;
    }
  }
  const Rle drawn = polygons_mask(scaled, {resolution, resolution});
  for_each_column_span(drawn, [&](std::int64_t x, std::int64_t begin, std::int64_t end) {
    for (std::int64_t y = begin; y < end; ++y) {
      target[y * resolution + x] = 1.0F;
    }
  });
}

}  // namespace

Tensor mask_targets(const std::vector<Segmentation>& masks,
                    const Tensor& boxes,
                    const Tensor& gt_index,
                    std::int64_t resolution) {
  RECORD_FUNCTION("detforge::mask_targets", {});
  check(masks, boxes, gt_index, resolution);
  const Tensor rows = boxes.detach().to(torch::kCPU).contiguous();
  const Tensor index = gt_index.to(torch::kCPU).contiguous();
  Tensor targets = torch::zeros({rows.size(0), resolution, resolution}, torch::kFloat);
  at::parallel_for(0, rows.size(0), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const auto object = static_cast<std::size_t>(index.data_ptr<std::int64_t>()[r]);
      const Segmentation& mask = masks[object];
      const float* box = rows.data_ptr<float>() + r * 4;
      float* target = targets.data_ptr<float>() + r * resolution * resolution;
      if (!mask.rle.counts.empty()) {
        check_rle(mask.rle.counts, mask.rle.size);
        cpu::crop_rle(mask.rle, box, resolution, target);
      } else if (!mask.polygons.empty()) {
        draw_polygons(mask.polygons, box, resolution, target);
      }
    }
  });
  return targets.to(boxes.device());
}

}  // namespace detforge
