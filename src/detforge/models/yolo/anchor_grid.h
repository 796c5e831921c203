#pragma once

#include <cstdint>
#include <vector>

#include "detforge/models/yolo/yolo_scale.h"

namespace detforge {

/// The anchors of one scale over a grid of cells, each computed when asked for: as yolo_anchors(),
/// for those who need few of them.
class AnchorGrid {
 public:
  /// `first`: index of the scale's first anchor among those of all scales.
  AnchorGrid(const YoloScale& scale, ImageSize grid, std::int64_t first = 0);

  struct Cell {
    std::int64_t y = 0, x = 0;
  };
  struct Box {
    float x1, y1, x2, y2;
  };
  Box box(Cell cell, std::size_t anchor) const;
  /// Index among the anchors of all scales.
  std::int64_t index(Cell cell, std::size_t anchor) const;
  /// The cell that holds the centre of a box xyxy, or the nearest one.
  Cell cell_of(const float* box) const;

  std::int64_t first() const { return first_; }
  std::int64_t size() const { return size_.height * size_.width * anchors_; }
  std::int64_t anchors_per_cell() const { return anchors_; }
  std::int64_t stride() const { return stride_; }
  ImageSize grid() const { return size_; }

 private:
  ImageSize size_;
  std::int64_t stride_, anchors_, first_;
  std::vector<Box> base_;  // the anchors of cell (0, 0)
};

/// One AnchorGrid per scale, numbered one after the other.
std::vector<AnchorGrid> anchor_grids(const std::vector<YoloScale>& scales,
                                     const std::vector<ImageSize>& grids);

}  // namespace detforge
