#pragma once

#include <cstdint>
#include <vector>

#include "detforge/structures/image.h"

namespace detforge {

/// How much of each pixel a shape covers, 0..1.
struct Coverage {
  ImageSize size;
  std::vector<float> values;  ///< height * width, row-major

  float at(std::int64_t y, std::int64_t x) const {
    return values[static_cast<std::size_t>(y * size.width + x)];
  }
  /// Covered area in pixels.
  double area() const;
};

/// Rasterises a simple polygon (x0 y0 x1 y1 ..., continuous pixels): exact along x, eight lines per
/// pixel along y. Parts outside the image are cut off.
Coverage polygon_coverage(const std::vector<double>& polygon, ImageSize size);

}  // namespace detforge
