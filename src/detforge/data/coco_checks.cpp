#include "detforge/data/coco_checks.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "detforge/data/image_io.h"

namespace detforge {
namespace {

std::string box_text(const CocoAnnotation& a) {
  return fmt::format("bbox [{}]", fmt::join(a.box_xywh, ", "));
}

/// Reads the sizes that the JSON lacks from the image files.
void fill_sizes(CocoTables& tables, const CocoLoadOptions& options, CheckReport& report) {
  std::vector<std::size_t> unknown;
  std::vector<std::string> paths;
  for (std::size_t i = 0; i < tables.images.size(); ++i) {
    const CocoImage& image = tables.images[i];
    if (image.size.height <= 0 || image.size.width <= 0) {
      unknown.push_back(i);
      paths.push_back(
          (std::filesystem::path(options.image_root) / tables.file_name(image)).string());
    }
  }
  std::vector<ImageProbe> probes(unknown.size(), {{}, "no image folder to read it from"});
  if (!options.image_root.empty()) {
    probes = probe_images(paths, {.apply_orientation = options.apply_orientation});
  }
  for (std::size_t k = 0; k < unknown.size(); ++k) {
    CocoImage& image = tables.images[unknown[k]];
    image.size = probes[k].info.size;
    report.add(CheckKind::kMissingImageSize, [&] {
      const std::string name(tables.file_name(image));
      return CheckExample{
          .index = static_cast<std::int64_t>(unknown[k]),
          .id = image.id,
          .detail = probes[k].problem.empty() ? name : name + ": " + probes[k].problem};
    });
  }
}

/// Sorted by id, distinct, each with a file name.
void order_images(CocoTables& tables, CheckReport& report) {
  std::vector<CocoImage>& images = tables.images;
  std::vector<std::size_t> order(images.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return images[a].id < images[b].id; });
  std::vector<CocoImage> kept;
  kept.reserve(images.size());
  for (const std::size_t i : order) {
    const auto example = [&](std::string detail) {
      return CheckExample{
          .index = static_cast<std::int64_t>(i), .id = images[i].id, .detail = std::move(detail)};
    };
    if (images[i].name_length == 0) {
      report.add(CheckKind::kImageWithoutFileName,
                 [&] { return example("the image has no file_name"); });
    } else if (!kept.empty() && kept.back().id == images[i].id) {
      report.add(CheckKind::kDuplicateImageId, [&] {
        return example(fmt::format("image id {} is used by {} and {}", images[i].id,
                                   tables.file_name(kept.back()), tables.file_name(images[i])));
      });
    } else {
      kept.push_back(images[i]);
    }
  }
  images = std::move(kept);
}

void order_categories(CocoTables& tables, CheckReport& report) {
  std::vector<CocoCategory>& categories = tables.categories;
  std::unordered_map<std::int64_t, std::string> names;
  std::unordered_map<std::string, std::int64_t> ids;
  for (std::size_t i = 0; i < categories.size(); ++i) {
    const std::int64_t id = categories[i].id;
    const std::string& name = categories[i].name;
    const auto example = [&](std::string detail) {
      return CheckExample{
          .index = static_cast<std::int64_t>(i), .id = id, .detail = std::move(detail)};
    };
    if (!names.emplace(id, name).second) {
      report.add(CheckKind::kDuplicateCategoryId, [&] {
        return example(fmt::format("category id {} is used by {} and {}", id, names[id], name));
      });
    }
    if (!ids.emplace(name, id).second) {
      report.add(CheckKind::kDuplicateCategoryName, [&] {
        return example(fmt::format("categories {} and {} are both called {}", ids[name], id, name));
      });
    }
  }
  std::stable_sort(categories.begin(), categories.end(),
                   [](const auto& a, const auto& b) { return a.id < b.id; });
}

/// Index of the record with this id in a list sorted by id, or -1.
template <typename Records>
std::int64_t find_id(const Records& records, std::int64_t id) {
  const auto at = std::lower_bound(records.begin(), records.end(), id,
                                   [](const auto& r, std::int64_t x) { return r.id < x; });
  return at != records.end() && at->id == id ? at - records.begin() : -1;
}

/// Whether the box leaves the image by more than rounding, as of a converter through float32.
bool crosses_border(const Box& box, const Box& clipped) {
  constexpr double kSlack = 1e-3;  // pixels
  return clipped.x1 - box.x1 > kSlack || clipped.y1 - box.y1 > kSlack ||
         box.x2 - clipped.x2 > kSlack || box.y2 - clipped.y2 > kSlack;
}

/// What becomes of the box: true if the object stays usable.
bool check_box(const CocoAnnotation& a, ImageSize size, CheckReport& report) {
  const auto add = [&](CheckKind kind) {
    return report.add(kind, [&] {
      return example_of(a, size.width > 0 ? fmt::format("{}, image {} x {} (width x height)",
                                                        box_text(a), size.width, size.height)
                                          : box_text(a));
    }) == CheckAction::kFix;
  };
  if (a.box_numbers != 4) {
    const CheckKind kind = a.box_numbers == 0 ? CheckKind::kBoxMissing : CheckKind::kBoxMalformed;
    report.add(kind, [&] {
      return example_of(
          a, a.box_numbers == 0
                 ? "no bbox and no mask"
                 : fmt::format("bbox has {} numbers", a.box_numbers == 255 ? 0 : a.box_numbers));
    });
    return false;
  }
  if (!std::all_of(a.box_xywh.begin(), a.box_xywh.end(),
                   [](double x) { return std::isfinite(x); })) {
    return add(CheckKind::kBoxNotFinite);
  }
  if (a.box_xywh[2] < 0 || a.box_xywh[3] < 0) {
    return add(CheckKind::kBoxNegativeSize);
  }
  if (a.box_xywh[2] == 0 || a.box_xywh[3] == 0) {
    return add(CheckKind::kBoxZeroSize);
  }
  const Box clipped = clipped_box(a.box_xywh, size);
  if (!(clipped.width() > 0 && clipped.height() > 0)) {
    return add(CheckKind::kBoxOutside);
  }
  bool usable = true;
  if (crosses_border(clipped_box(a.box_xywh, {}), clipped)) {
    usable &= add(CheckKind::kBoxClipped);
  }
  if (a.box_xywh[2] < 1 || a.box_xywh[3] < 1) {
    usable &= add(CheckKind::kBoxSubPixel);
  }
  return usable;
}

bool check_rle_size(const CocoTables& tables,
                    const CocoAnnotation& a,
                    ImageSize size,
                    CheckReport& report) {
  const ImageSize rle = tables.rles[static_cast<std::size_t>(a.rle)].size;
  return report.add(CheckKind::kRleSizeMismatch, [&] {
    return example_of(
        a, fmt::format("the RLE's size is [{}, {}], the image's [{}, {}] (height, width)",
                       rle.height, rle.width, size.height, size.width));
  }) != CheckAction::kDrop;
}

/// Counts boxes that leave the image read as x y w h and fit it read as two corners.
struct CornerSuspicion {
  std::int64_t boxes = 0, suspicious = 0;
  CheckExample first;

  void look_at(const CocoAnnotation& a, ImageSize size) {
    constexpr double kSlack = 1;  // for boxes rounded outwards
    if (size.width == 0 || a.box_numbers != 4) {
      return;
    }
    ++boxes;
    const auto [x, y, w, h] = a.box_xywh;
    const auto width = static_cast<double>(size.width) + kSlack,
               height = static_cast<double>(size.height) + kSlack;
    if ((x + w > width || y + h > height) && w > x && h > y && w <= width && h <= height &&
        x >= 0 && y >= 0) {
      if (suspicious++ == 0) {
        first = example_of(a, box_text(a));
      }
    }
  }
  void report_to(CheckReport& report) {
    constexpr std::int64_t kEnough = 3;
    if (suspicious >= kEnough && 2 * suspicious > boxes) {
      first.detail = fmt::format(
          "{} of {} boxes leave their image as [x, y, width, height] but fit it as two corners; "
          "it looks like x1y1x2y2, first {}",
          suspicious, boxes, first.detail);
      report.add(CheckKind::kBoxesLookLikeCorners, [&] { return first; });
    }
  }
};

/// Reports ids used twice; gives free ids to annotations without.
void check_ids(std::vector<CocoAnnotation>& annotations, CheckReport& report) {
  std::vector<std::pair<std::int64_t, std::size_t>> ids;
  ids.reserve(annotations.size());
  for (std::size_t i = 0; i < annotations.size(); ++i) {
    if (annotations[i].has_id) {
      ids.emplace_back(annotations[i].id, i);
    }
  }
  std::sort(ids.begin(), ids.end());
  for (std::size_t k = 1; k < ids.size(); ++k) {
    CocoAnnotation& a = annotations[ids[k].second];
    if (ids[k - 1].first == a.id && report.add(CheckKind::kDuplicateAnnotationId, [&] {
          return example_of(a, fmt::format("annotation id {} is used again", a.id));
        }) == CheckAction::kDrop) {
      a.usable = false;
    }
  }
  std::int64_t next = 1;
  auto taken = std::lower_bound(ids.begin(), ids.end(), std::pair(next, std::size_t{0}));
  for (CocoAnnotation& a : annotations) {
    if (a.has_id) {
      continue;
    }
    for (; taken != ids.end() && taken->first <= next; ++taken) {
      next += taken->first == next ? 1 : 0;
    }
    if (report.add(CheckKind::kMissingAnnotationId, [&] {
          return example_of(a, fmt::format("given id {}", next));
        }) == CheckAction::kDrop) {
      a.usable = false;
    }
    a.id = next++;
  }
}

/// Groups by image, keeping file order, and leaves out annotations of no image or category.
void group_by_image(CocoTables& tables, const std::vector<std::int64_t>& image_of) {
  for (const std::int64_t image : image_of) {
    if (image >= 0) {
      ++tables.images[static_cast<std::size_t>(image)].annotation_count;
    }
  }
  std::int64_t total = 0;
  for (CocoImage& image : tables.images) {
    image.first_annotation = total;
    total += std::exchange(image.annotation_count, 0);
  }
  std::vector<CocoAnnotation> grouped(static_cast<std::size_t>(total));
  for (std::size_t i = 0; i < image_of.size(); ++i) {
    if (image_of[i] >= 0) {
      CocoImage& image = tables.images[static_cast<std::size_t>(image_of[i])];
      grouped[static_cast<std::size_t>(image.first_annotation + image.annotation_count++)] =
          tables.annotations[i];
    }
  }
  tables.annotations = std::move(grouped);
}

/// Image, category, box and mask size of one annotation. Returns the index of its image, or -1.
std::int64_t check_annotation(CocoTables& tables,
                              CocoAnnotation& a,
                              CornerSuspicion& corners,
                              CheckReport& report) {
  const std::int64_t image = find_id(tables.images, a.image_id);
  if (image < 0) {
    report.add(CheckKind::kUnknownImageId,
               [&] { return example_of(a, fmt::format("there is no image {}", a.image_id)); });
    return -1;
  }
  a.category = static_cast<std::int32_t>(find_id(tables.categories, a.category_id));
  if (a.category < 0) {
    report.add(CheckKind::kUnknownCategoryId, [&] {
      return example_of(a, fmt::format("there is no category {}", a.category_id));
    });
    return -1;
  }
  const ImageSize size = tables.images[static_cast<std::size_t>(image)].size;
  corners.look_at(a, size);
  a.usable = check_box(a, size, report) && a.usable;
  if (a.rle >= 0 && size.width > 0 && tables.rles[static_cast<std::size_t>(a.rle)].size != size) {
    a.usable = check_rle_size(tables, a, size, report) && a.usable;
    a.rle = -1;
  }
  return image;
}

}  // namespace

void check_coco(CocoTables& tables, const CocoLoadOptions& options, CheckReport& report) {
  const auto annotations_in_file = static_cast<std::int64_t>(tables.annotations.size());
  const auto images_in_file = static_cast<std::int64_t>(tables.images.size());
  fill_sizes(tables, options, report);
  order_images(tables, report);
  order_categories(tables, report);
  check_ids(tables.annotations, report);
  CornerSuspicion corners;
  std::vector<std::int64_t> image_of(tables.annotations.size());
  for (std::size_t i = 0; i < tables.annotations.size(); ++i) {
    image_of[i] = check_annotation(tables, tables.annotations[i], corners, report);
  }
  corners.report_to(report);
  group_by_image(tables, image_of);
  const auto usable = std::count_if(tables.annotations.begin(), tables.annotations.end(),
                                    [](const CocoAnnotation& a) { return a.usable; });
  report.set_totals(images_in_file, annotations_in_file, annotations_in_file - usable);
}

}  // namespace detforge
