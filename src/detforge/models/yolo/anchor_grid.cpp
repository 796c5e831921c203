#include "detforge/models/yolo/anchor_grid.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "detforge/core/error.h"

namespace detforge {

AnchorGrid::AnchorGrid(const YoloScale& scale, ImageSize grid, std::int64_t first)
    : size_(grid), stride_(scale.stride), anchors_(scale.anchor_count()), first_(first) {
  const double centre = static_cast<double>(scale.stride) / 2.0;
  for (const auto& [width, height] : scale.anchors) {
    base_.push_back(
        {static_cast<float>(centre - 0.5 * width), static_cast<float>(centre - 0.5 * height),
         static_cast<float>(centre + 0.5 * width), static_cast<float>(centre + 0.5 * height)});
  }
}

AnchorGrid::Box AnchorGrid::box(Cell cell, std::size_t anchor) const {
  const auto x = static_cast<float>(cell.x * stride_);
  const auto y = static_cast<float>(cell.y * stride_);
  const Box& base = base_[anchor];
  return {base.x1 + x, base.y1 + y, base.x2 + x, base.y2 + y};
}

std::int64_t AnchorGrid::index(Cell cell, std::size_t anchor) const {
  return first_ + (cell.y * size_.width + cell.x) * anchors_ + static_cast<std::int64_t>(anchor);
}

AnchorGrid::Cell AnchorGrid::cell_of(const float* box) const {
  const auto cell = [this](float low, float high, std::int64_t count) {
    const float centre = (low + high) * 0.5F;
    const auto position =
        static_cast<std::int64_t>(std::floor(centre / static_cast<float>(stride_)));
    return std::clamp<std::int64_t>(position, 0, count - 1);
  };
  return {cell(box[1], box[3], size_.height), cell(box[0], box[2], size_.width)};
}

std::vector<AnchorGrid> anchor_grids(const std::vector<YoloScale>& scales,
                                     const std::vector<ImageSize>& grids) {
  DETFORGE_CHECK(scales.size() == grids.size(),
                 fmt::format("{} grids, but anchors for {}", grids.size(), scales.size()),
                 "give one grid of cells for each scale");
  std::vector<AnchorGrid> all;
  std::int64_t first = 0;
  for (std::size_t i = 0; i < scales.size(); ++i) {
    all.emplace_back(scales[i], grids[i], first);
    first += all.back().size();
  }
  return all;
}

}  // namespace detforge
