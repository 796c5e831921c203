#include "detforge/data/polygon_clip.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>

#include "detforge/structures/rle.h"

namespace detforge {
namespace {

struct Point {
  double x = 0, y = 0;
};
using Points = std::vector<Point>;

Points to_points(const std::vector<double>& xy) {
  Points points;
  for (std::size_t i = 0; i + 1 < xy.size(); i += 2) {
    points.push_back({xy[i], xy[i + 1]});
  }
  return points;
}

/// Keeps what lies on the side of a line where sign * coordinate <= sign * limit.
Points clip_side(const Points& points, double Point::*axis, double limit, double sign) {
  const auto inside = [&](const Point& p) { return sign * p.*axis <= sign * limit; };
  Points kept;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const Point &from = points[i], &to = points[(i + 1) % points.size()];
    if (inside(from)) {
      kept.push_back(from);
    }
    if (inside(from) != inside(to)) {
      const double t = (limit - from.*axis) / (to.*axis - from.*axis);
      Point cut{from.x + t * (to.x - from.x), from.y + t * (to.y - from.y)};
      cut.*axis = limit;
      kept.push_back(cut);
    }
  }
  return kept;
}

/// The part of an edge in the open window 0 < x < width, 0 < y < height (Liang-Barsky).
struct Segment {
  Point from, to;
};
std::optional<Segment> inner_segment(const Point& a, const Point& b, double width, double height) {
  double begin = 0, end = 1;
  const auto cut = [&](double start, double step, double limit) {
    if (step == 0) {
      return start > 0 && start < limit;
    }
    const double t0 = -start / step, t1 = (limit - start) / step;
    begin = std::max(begin, std::min(t0, t1));
    end = std::min(end, std::max(t0, t1));
    return true;
  };
  const double dx = b.x - a.x, dy = b.y - a.y;
  if (!cut(a.x, dx, width) || !cut(a.y, dy, height) || !(begin < end)) {
    return std::nullopt;
  }
  return Segment{{a.x + begin * dx, a.y + begin * dy}, {a.x + end * dx, a.y + end * dy}};
}

/// Even-odd rule.
bool contains(const Points& points, const Point& p) {
  bool inside = false;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const Point &a = points[i], &b = points[(i + 1) % points.size()];
    if ((a.y > p.y) != (b.y > p.y) && p.x < a.x + (p.y - a.y) / (b.y - a.y) * (b.x - a.x)) {
      inside = !inside;
    }
  }
  return inside;
}

}  // namespace

std::vector<double> clip_polygon(const std::vector<double>& xy, const Box& window) {
  if (xy.size() < 2) {
    return {};
  }
  const Box box = polygon_box(xy);
  if (box.x1 >= window.x1 && box.y1 >= window.y1 && box.x2 <= window.x2 && box.y2 <= window.y2) {
    return xy;
  }
  Points points = to_points(xy);
  points = clip_side(points, &Point::x, window.x1, -1);
  points = clip_side(points, &Point::x, window.x2, 1);
  points = clip_side(points, &Point::y, window.y1, -1);
  points = clip_side(points, &Point::y, window.y2, 1);
  std::vector<double> clipped;
  for (const Point& point : points) {
    clipped.insert(clipped.end(), {point.x, point.y});
  }
  return clipped.size() >= 6 && polygon_area(clipped) > 0 ? clipped : std::vector<double>{};
}

Box visible_box(const std::vector<std::vector<double>>& polygons, ImageSize size) {
  constexpr double kFar = std::numeric_limits<double>::infinity();
  constexpr double kOnBorder = 1e-7;  // pixels
  constexpr double kInside = 1e-6;    // of a pixel: where a corner is asked whether it is covered
  const auto width = static_cast<double>(size.width), height = static_cast<double>(size.height);
  Box box{kFar, kFar, -kFar, -kFar};
  const auto snap = [](double value, double border) {  // what scaling and cutting round
    return std::abs(value) < kOnBorder ? 0 : std::abs(value - border) < kOnBorder ? border : value;
  };
  const auto include = [&](double x, double y) {
    x = snap(x, width);
    y = snap(y, height);
    box = {std::min(box.x1, x), std::min(box.y1, y), std::max(box.x2, x), std::max(box.y2, y)};
  };
  for (const std::vector<double>& polygon : polygons) {
    Points points = to_points(polygon);
    for (Point& point : points) {
      point = {snap(point.x, width), snap(point.y, height)};
    }
    for (std::size_t i = 0; i < points.size(); ++i) {
      const auto part = inner_segment(points[i], points[(i + 1) % points.size()], width, height);
      if (part) {
        include(part->from.x, part->from.y);
        include(part->to.x, part->to.y);
      }
    }
    for (const double x : {0.0, width}) {
      for (const double y : {0.0, height}) {
        const Point near{x == 0 ? kInside : x - kInside, y == 0 ? kInside : y - kInside};
        if (contains(points, near)) {
          include(x, y);
        }
      }
    }
  }
  return box.x1 <= box.x2 ? box : Box{};
}

Box visible_mask_box(const Segmentation& mask, ImageSize size) {
  return mask.rle.counts.empty() ? visible_box(mask.polygons, size)
                                 : rle_box(mask.rle.counts, mask.rle.size.height);
}

}  // namespace detforge
