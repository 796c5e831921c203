#include "detforge/data/coco_store.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "detforge/data/coco_checks.h"
#include "detforge/data/coco_json.h"

namespace detforge {

const CocoImage* CocoStore::find_image(std::int64_t id) const {
  const auto at =
      std::lower_bound(tables_.images.begin(), tables_.images.end(), id,
                       [](const CocoImage& image, std::int64_t x) { return image.id < x; });
  return at != tables_.images.end() && at->id == id ? &*at : nullptr;
}

std::string CocoStore::image_path(const CocoImage& image) const {
  return (std::filesystem::path(tables_.image_root) / file_name(image)).string();
}

Segmentation CocoStore::segmentation(const CocoAnnotation& annotation) const {
  Segmentation out;
  for (std::uint32_t i = 0; i < annotation.part_count; ++i) {
    const CocoTables::Span part = tables_.parts[annotation.first_part + i];
    const auto begin = tables_.coordinates.begin() + static_cast<std::ptrdiff_t>(part.begin);
    out.polygons.emplace_back(begin, begin + part.count);
  }
  if (annotation.rle >= 0) {
    const CocoTables::RleSpan& rle = tables_.rles[static_cast<std::size_t>(annotation.rle)];
    const auto begin = tables_.counts.begin() + static_cast<std::ptrdiff_t>(rle.begin);
    out.rle.size = rle.size;
    out.rle.counts.assign(begin, begin + rle.count);
  }
  return out;
}

std::size_t CocoStore::bytes() const {
  const auto size = [](const auto& v) { return v.size() * sizeof(v[0]); };
  return size(tables_.images) + size(tables_.annotations) + size(tables_.categories) +
         tables_.names.size() + size(tables_.parts) + size(tables_.coordinates) +
         size(tables_.rles) + size(tables_.counts);
}

CheckExample example_of(const CocoAnnotation& a, std::string detail) {
  return {.index = a.file_index,
          .id = a.has_id ? std::optional(a.id) : std::nullopt,
          .image_id = a.image_id,
          .detail = std::move(detail)};
}

Box clipped_box(const std::array<double, 4>& box_xywh, ImageSize size) {
  const auto [x, y, w, h] = box_xywh;
  if (size.width == 0 || size.height == 0) {
    return {x, y, x + w, y + h};
  }
  const auto width = static_cast<double>(size.width), height = static_cast<double>(size.height);
  return {std::clamp(x, 0.0, width), std::clamp(y, 0.0, height), std::clamp(x + w, 0.0, width),
          std::clamp(y + h, 0.0, height)};
}

std::shared_ptr<const CocoStore> load_coco(const std::string& path,
                                           const CocoLoadOptions& options,
                                           CheckReport& report) {
  report.set_file(path);
  CocoTables tables = read_coco_json(path, options.keep_segmentation, report);
  tables.image_root = options.image_root;
  check_coco(tables, options, report);
  report.refuse();
  return std::make_shared<const CocoStore>(std::move(tables));
}

}  // namespace detforge
