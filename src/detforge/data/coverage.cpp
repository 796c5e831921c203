#include "detforge/data/coverage.h"

#include <algorithm>
#include <numeric>

namespace detforge {
namespace {

constexpr int kLinesPerPixel = 8;

/// Where the horizontal line at y crosses the polygon's edges, ascending: inside from each even to
/// the next odd.
std::vector<double> crossings(const std::vector<double>& polygon, double y) {
  std::vector<double> at;
  for (std::size_t i = 0; i < polygon.size(); i += 2) {
    const std::size_t next = (i + 2) % polygon.size();
    const double x1 = polygon[i], y1 = polygon[i + 1], x2 = polygon[next], y2 = polygon[next + 1];
    if ((y1 <= y) != (y2 <= y)) {
      at.push_back(x1 + (y - y1) * (x2 - x1) / (y2 - y1));
    }
  }
  std::sort(at.begin(), at.end());
  return at;
}

/// Adds the part of each pixel that lies between `from` and `to`.
void add_span(float* row, double from, double to, std::int64_t width) {
  from = std::clamp(from, 0.0, static_cast<double>(width));
  to = std::clamp(to, 0.0, static_cast<double>(width));
  for (auto x = static_cast<std::int64_t>(from); static_cast<double>(x) < to; ++x) {
    const double left = std::max(from, static_cast<double>(x));
    const double right = std::min(to, static_cast<double>(x + 1));
    row[x] += static_cast<float>((right - left) / kLinesPerPixel);
  }
}

}  // namespace

double Coverage::area() const {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

Coverage polygon_coverage(const std::vector<double>& polygon, ImageSize size) {
  Coverage coverage{size, std::vector<float>(static_cast<std::size_t>(size.height * size.width))};
  for (std::int64_t line = 0; line < size.height * kLinesPerPixel; ++line) {
    const auto spans = crossings(polygon, (static_cast<double>(line) + 0.5) / kLinesPerPixel);
    float* row = coverage.values.data() + line / kLinesPerPixel * size.width;
    for (std::size_t i = 0; i + 1 < spans.size(); i += 2) {
      add_span(row, spans[i], spans[i + 1], size.width);
    }
  }
  return coverage;
}

}  // namespace detforge
