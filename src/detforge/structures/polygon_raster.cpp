#include "detforge/structures/polygon_raster.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>

#include <fmt/format.h>

#include "detforge/core/error.h"
#include "detforge/structures/rle.h"
#include "detforge/structures/rle_builder.h"

namespace detforge {
namespace {

constexpr std::int64_t kScale = 5;             // grid lines per pixel
constexpr double kFarthest = 1 << 30;          // of a grid coordinate
constexpr std::int64_t kBefore = 2;            // column c is crossed between 5c+2 and 5c+3
using Crossings = std::vector<std::uint32_t>;  // pixels at which the inside begins or ends

struct GridPoint {
  std::int64_t x = 0, y = 0;
};

/// Rounds as C's (int)(5 * v + .5) does, towards zero below it.
std::int64_t to_grid(double coordinate) {
  DETFORGE_CHECK(std::isfinite(coordinate), fmt::format("a polygon has coordinate {}", coordinate),
                 "write finite numbers");
  return static_cast<std::int64_t>(
      std::clamp(static_cast<double>(kScale) * coordinate + .5, -kFarthest, kFarthest));
}

/// The edge between two grid points, as points at whole steps t = 0..length along its longer axis.
class GridEdge {
 public:
  GridEdge(GridPoint a, GridPoint b) {
    const std::int64_t dx = std::abs(a.x - b.x), dy = std::abs(a.y - b.y);
    along_x_ = dx >= dy;
    length_ = std::max(dx, dy);
    const bool swap = along_x_ ? a.x > b.x : a.y > b.y;
    from_ = swap ? b : a;
    to_ = swap ? a : b;
    slope_ = length_ == 0 ? 0
                          : static_cast<double>(along_x_ ? to_.y - from_.y : to_.x - from_.x) /
                                static_cast<double>(length_);
  }

  /// Grid x at which the edge crosses columns, lowest and highest.
  std::int64_t lowest_x() const { return std::min(from_.x, to_.x); }
  std::int64_t highest_x() const { return std::max(from_.x, to_.x); }

  /// The lower grid y of the two neighbouring points with x <= before and x > before; both exist.
  std::int64_t y_at(std::int64_t before) const {
    if (along_x_) {
      const std::int64_t t = before - from_.x;
      return std::min(across(from_.y, t), across(from_.y, t + 1));
    }
    return from_.y + last_step(before);
  }

 private:
  std::int64_t across(std::int64_t start, std::int64_t t) const {
    return static_cast<std::int64_t>(static_cast<double>(start) + slope_ * static_cast<double>(t) +
                                     .5);
  }
  /// The last step before x passes the line between `before` and `before + 1`, in either direction.
  /// The quotient misses it by rounding only; x is monotone in t.
  std::int64_t last_step(std::int64_t before) const {
    const bool rising = slope_ > 0;
    const auto passed = [&](std::int64_t t) { return (across(from_.x, t) > before) == rising; };
    const double guess = (static_cast<double>(before - from_.x) + .5) / slope_;
    std::int64_t t = std::clamp(static_cast<std::int64_t>(guess), std::int64_t{0}, length_ - 1);
    while (t + 1 < length_ && !passed(t + 1)) {
      ++t;
    }
    while (t > 0 && passed(t)) {
      --t;
    }
    return t;
  }

  bool along_x_ = true;
  std::int64_t length_ = 0;
  GridPoint from_, to_;
  double slope_ = 0;  ///< change of the other coordinate per step
};

void add_crossings(const GridEdge& edge, ImageSize size, Crossings& crossings) {
  // 5c + 2 >= lowest and 5c + 3 <= highest.
  const std::int64_t first =
      std::max<std::int64_t>(0, (edge.lowest_x() - kBefore + kScale - 1) / kScale);
  const std::int64_t last =
      edge.highest_x() < kBefore + 1
          ? -1
          : std::min(size.width - 1, (edge.highest_x() - kBefore - 1) / kScale);
  const auto height = static_cast<double>(size.height);
  for (std::int64_t column = first; column <= last; ++column) {
    const auto grid_y = static_cast<double>(edge.y_at(kScale * column + kBefore));
    const double y = std::ceil(std::clamp((grid_y + .5) / kScale - .5, 0.0, height));
    crossings.push_back(
        static_cast<std::uint32_t>(column * size.height + static_cast<std::int64_t>(y)));
  }
}

}  // namespace

Rle polygon_mask(std::span<const double> xy, ImageSize size) {
  const std::uint64_t pixels = mask_pixels(size);
  std::vector<GridPoint> points;
  for (std::size_t i = 0; i + 1 < xy.size(); i += 2) {
    points.push_back({to_grid(xy[i]), to_grid(xy[i + 1])});
  }
  Crossings crossings;
  for (std::size_t i = 0; i < points.size(); ++i) {
    add_crossings(GridEdge(points[i], points[(i + 1) % points.size()]), size, crossings);
  }
  std::sort(crossings.begin(), crossings.end());
  RleBuilder builder(size);
  for (std::size_t i = 0; i < crossings.size(); i += 2) {
    builder.set(crossings[i], i + 1 < crossings.size() ? crossings[i + 1] : pixels);
  }
  return builder.take();
}

Rle polygons_mask(const std::vector<std::vector<double>>& parts, ImageSize size) {
  if (parts.empty()) {
    return RleBuilder(size).take();
  }
  Rle mask = polygon_mask(parts[0], size);
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const Rle part = polygon_mask(parts[i], size);
    mask = merge_masks(std::vector<RleView>{mask, part});
  }
  return mask;
}

Rle segmentation_mask(const Segmentation& segmentation, ImageSize size) {
  if (segmentation.rle.counts.empty()) {
    return polygons_mask(segmentation.polygons, size);
  }
  const Rle& rle = segmentation.rle;
  DETFORGE_CHECK(rle.size == size,
                 fmt::format("an RLE has size {} x {}, its image {} x {} (height x width)",
                             rle.size.height, rle.size.width, size.height, size.width),
                 "size is [height, width] of the image");
  check_rle(rle.counts, rle.size);
  return rle;
}

}  // namespace detforge
