#include "detforge/data/coco_masks.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "detforge/structures/rle.h"

namespace detforge {
namespace {

std::span<const double> polygon(const CocoTables& tables, CocoTables::Span part) {
  return std::span(tables.coordinates).subspan(part.begin, part.count);
}

std::span<const std::uint32_t> runs(const CocoTables& tables, const CocoTables::RleSpan& rle) {
  return std::span(tables.counts).subspan(rle.begin, rle.count);
}

/// What is wrong with a part; empty if it is a polygon.
std::string_view fault_of(std::span<const double> xy) {
  if (!std::all_of(xy.begin(), xy.end(), [](double x) { return std::isfinite(x); })) {
    return ", not all finite";
  }
  if (xy.size() < 6) {
    return ", fewer than 3 points";
  }
  if (xy.size() % 2 != 0) {
    return ", an odd count";
  }
  return polygon_area(xy) > 0 ? "" : " and no area";
}

}  // namespace

double mask_area(const CocoTables& tables, const CocoAnnotation& annotation) {
  if (annotation.rle >= 0) {
    return static_cast<double>(
        rle_area(runs(tables, tables.rles[static_cast<std::size_t>(annotation.rle)])));
  }
  double area = 0;
  for (std::uint32_t i = 0; i < annotation.part_count; ++i) {
    area += polygon_area(polygon(tables, tables.parts[annotation.first_part + i]));
  }
  return area;
}

Box mask_box(const CocoTables& tables, const CocoAnnotation& annotation) {
  if (annotation.rle >= 0) {
    const CocoTables::RleSpan& rle = tables.rles[static_cast<std::size_t>(annotation.rle)];
    return rle_box(runs(tables, rle), rle.size.height);
  }
  constexpr double kFar = std::numeric_limits<double>::infinity();
  Box box{kFar, kFar, -kFar, -kFar};
  for (std::uint32_t i = 0; i < annotation.part_count; ++i) {
    const Box part = polygon_box(polygon(tables, tables.parts[annotation.first_part + i]));
    box = {std::min(box.x1, part.x1), std::min(box.y1, part.y1), std::max(box.x2, part.x2),
           std::max(box.y2, part.y2)};
  }
  return box;
}

bool drop_invalid_parts(CocoTables& tables, CocoAnnotation& annotation, CheckReport& report) {
  std::vector<CocoTables::Span>& parts = tables.parts;
  bool usable = true;
  std::size_t kept = annotation.first_part;
  for (std::size_t i = kept; i < parts.size(); ++i) {
    const std::string_view fault = fault_of(polygon(tables, parts[i]));
    if (fault.empty()) {
      parts[kept++] = parts[i];
      continue;
    }
    const CheckAction action = report.add(CheckKind::kPolygonPartInvalid, [&] {
      return example_of(annotation, fmt::format("part {} has {} numbers{}",
                                                i - annotation.first_part, parts[i].count, fault));
    });
    usable &= action != CheckAction::kDrop;
  }
  parts.resize(kept);
  annotation.part_count = static_cast<std::uint32_t>(kept - annotation.first_part);
  if (annotation.part_count == 0) {
    const CheckAction action = report.add(
        CheckKind::kMaskInvalid, [&] { return example_of(annotation, "no polygon is left"); });
    usable &= action != CheckAction::kDrop;
  }
  return usable;
}

}  // namespace detforge
