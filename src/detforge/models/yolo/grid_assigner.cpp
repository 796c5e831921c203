#include "detforge/models/yolo/grid_assigner.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <torch/types.h>

#include "detforge/core/error.h"
#include "detforge/models/yolo/anchor_grid.h"
#include "detforge/ops/iou.h"

namespace detforge {
namespace {

/// Some anchors of all scales, with their boxes.
class Chosen {
 public:
  void add(const AnchorGrid& grid, AnchorGrid::Cell cell, std::size_t anchor) {
    index_.push_back(grid.index(cell, anchor));
    boxes_.push_back(grid.box(cell, anchor));
  }
  const std::vector<std::int64_t>& index() const { return index_; }
  /// IoU [G,R] with boxes [G,4].
  Tensor iou_with(const Tensor& gt_boxes) {
    const auto count = static_cast<std::int64_t>(boxes_.size());
    return pairwise_iou(gt_boxes, torch::from_blob(boxes_.data(), {count, 4}, torch::kFloat));
  }

 private:
  std::vector<std::int64_t> index_;
  std::vector<AnchorGrid::Box> boxes_;
};

struct Range {
  std::int64_t begin = 0, end = 0;
};

/// Cells, along one axis, whose anchor may overlap the object by more than `needed` there.
/// `sum`: of both sizes. Two intervals overlap by at most sum / 2 - |distance of centres|.
Range near_cells(double centre, double sum, double needed, double stride, std::int64_t cells) {
  const double reach = sum / 2.0 - needed;
  constexpr double kMargin = 1.0;  // cells, against rounding
  const double first = std::floor((centre - reach) / stride - 0.5 - kMargin);
  const double last = std::ceil((centre + reach) / stride - 0.5 + kMargin);
  const auto limit = static_cast<double>(cells);
  return {static_cast<std::int64_t>(std::clamp(first, 0.0, limit)),
          static_cast<std::int64_t>(std::clamp(last + 1.0, 0.0, limit))};
}

/// Adds the anchors of a scale that may have an IoU above `iou` with the box `gt`, and a few more.
void add_near_anchors(const AnchorGrid& grid, const float* gt, double iou, Chosen& chosen) {
  const double gt_width = static_cast<double>(gt[2]) - gt[0];
  const double gt_height = static_cast<double>(gt[3]) - gt[1];
  for (std::size_t a = 0; a < static_cast<std::size_t>(grid.anchors_per_cell()); ++a) {
    const AnchorGrid::Box base = grid.box({0, 0}, a);
    const double width = static_cast<double>(base.x2) - base.x1;
    const double height = static_cast<double>(base.y2) - base.y1;
    // IoU > t needs an intersection above t times the larger area.
    const double needed = iou * std::max(width * height, gt_width * gt_height);
    const double lowest_x = needed / std::min(height, gt_height);
    const double lowest_y = needed / std::min(width, gt_width);
    constexpr double kSlack = 1.0 - 1e-5;  // against the rounding of f32 IoUs
    if (lowest_x * kSlack > std::min(width, gt_width)) {
      continue;
    }
    const auto stride = static_cast<double>(grid.stride());
    const Range rows = near_cells((static_cast<double>(gt[1]) + gt[3]) / 2, height + gt_height,
                                  lowest_y * kSlack, stride, grid.grid().height);
    const Range columns = near_cells((static_cast<double>(gt[0]) + gt[2]) / 2, width + gt_width,
                                     lowest_x * kSlack, stride, grid.grid().width);
    for (std::int64_t y = rows.begin; y < rows.end; ++y) {
      for (std::int64_t x = columns.begin; x < columns.end; ++x) {
        chosen.add(grid, {y, x}, a);
      }
    }
  }
}

/// Rule 1: everything is negative but what is near an object.
void ignore_near_anchors(const std::vector<AnchorGrid>& grids,
                         const Tensor& gt_boxes,
                         double negative_iou,
                         std::vector<std::int64_t>& gt_of_anchor) {
  for (std::int64_t g = 0; g < gt_boxes.size(0); ++g) {
    const float* gt = gt_boxes.data_ptr<float>() + 4 * g;
    if (!(gt[2] > gt[0] && gt[3] > gt[1])) {
      continue;  // overlaps nothing
    }
    Chosen near;
    for (const AnchorGrid& grid : grids) {
      add_near_anchors(grid, gt, negative_iou, near);
    }
    const Tensor iou = near.iou_with(gt_boxes.slice(0, g, g + 1));
    const float* values = iou.data_ptr<float>();
    for (std::size_t i = 0; i < near.index().size(); ++i) {
      if (static_cast<double>(values[i]) > negative_iou) {
        gt_of_anchor[static_cast<std::size_t>(near.index()[i])] = YoloAssignment::kIgnored;
      }
    }
  }
}

/// The anchors of every cell that holds the centre of an object, each once.
Chosen responsible_anchors(const std::vector<AnchorGrid>& grids, const Tensor& gt_boxes) {
  Chosen chosen;
  for (const AnchorGrid& grid : grids) {
    std::set<std::pair<std::int64_t, std::int64_t>> cells;
    for (std::int64_t g = 0; g < gt_boxes.size(0); ++g) {
      const AnchorGrid::Cell cell = grid.cell_of(gt_boxes.data_ptr<float>() + 4 * g);
      cells.emplace(cell.y, cell.x);
    }
    for (const auto& [y, x] : cells) {
      for (std::size_t a = 0; a < static_cast<std::size_t>(grid.anchors_per_cell()); ++a) {
        chosen.add(grid, {y, x}, a);
      }
    }
  }
  return chosen;
}

/// Rules 2 and 3, on IoUs [G,R] of objects with responsible anchors.
void assign_responsible(const Tensor& iou,
                        const std::vector<std::int64_t>& index,
                        const GridAssignOptions& options,
                        std::vector<std::int64_t>& gt_of_anchor) {
  const auto values = iou.accessor<float, 2>();
  const std::int64_t objects = iou.size(0), anchors = iou.size(1);
  const auto role = [&](std::int64_t r) -> std::int64_t& {
    return gt_of_anchor[static_cast<std::size_t>(index[static_cast<std::size_t>(r)])];
  };
  for (std::int64_t r = 0; r < anchors; ++r) {
    std::int64_t best = 0;
    for (std::int64_t g = 1; g < objects; ++g) {
      best = values[g][r] > values[best][r] ? g : best;
    }
    if (static_cast<double>(values[best][r]) > options.positive_iou) {
      role(r) = best + 1;
    }
  }
  for (std::int64_t g = 0; g < objects; ++g) {
    float highest = 0.0F;
    for (std::int64_t r = 0; r < anchors; ++r) {
      highest = std::max(highest, values[g][r]);
    }
    for (std::int64_t r = 0; r < anchors; ++r) {
      if (static_cast<double>(highest) > options.min_positive_iou && values[g][r] == highest) {
        role(r) = g + 1;
      }
    }
  }
}

void check(const Tensor& gt_boxes, const GridAssignOptions& options) {
  DETFORGE_CHECK(gt_boxes.dim() == 2 && gt_boxes.size(1) == 4, "ground truth boxes are not [G,4]",
                 "pass xyxy rows");
  for (const double iou : {options.positive_iou, options.negative_iou, options.min_positive_iou}) {
    DETFORGE_CHECK(iou >= 0.0 && iou <= 1.0,
                   "an IoU threshold of the grid assigner is " + std::to_string(iou),
                   "choose 0 to 1");
  }
}

}  // namespace

YoloAssignment assign_on_grid(const std::vector<YoloScale>& scales,
                              const std::vector<ImageSize>& grids,
                              const Tensor& gt_boxes,
                              const GridAssignOptions& options) {
  check(gt_boxes, options);
  const std::vector<AnchorGrid> anchors = anchor_grids(scales, grids);
  const Tensor boxes = gt_boxes.detach().to(torch::kCPU, torch::kFloat).contiguous();
  const auto count = static_cast<std::size_t>(anchors.back().first() + anchors.back().size());
  YoloAssignment assignment{.gt_of_anchor =
                                std::vector<std::int64_t>(count, YoloAssignment::kNegative)};
  if (boxes.size(0) > 0) {
    ignore_near_anchors(anchors, boxes, options.negative_iou, assignment.gt_of_anchor);
    Chosen responsible = responsible_anchors(anchors, boxes);
    assign_responsible(responsible.iou_with(boxes), responsible.index(), options,
                       assignment.gt_of_anchor);
  }
  return assignment;
}

}  // namespace detforge
