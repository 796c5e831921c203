#include "detforge/data/tables_builder.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "detforge/data/coco_checks.h"
#include "detforge/data/coco_masks.h"
#include "detforge/data/image_files.h"
#include "detforge/structures/rle.h"

namespace detforge {

/// Where each annotation came from; shared with the report, which outlives the builder.
struct TablesBuilder::Places {
  struct Place {
    std::uint32_t file = 0, number = 0;
  };
  std::string number_name;
  std::vector<std::string> files;  ///< by image
  std::vector<Place> annotations;

  std::string text(std::size_t file, std::int64_t number) const {
    return fmt::format("{}, {} {}", files.at(file), number_name, number);
  }
};

TablesBuilder::TablesBuilder(const CocoLoadOptions& options,
                             CheckReport& report,
                             std::string number_name)
    : options_(options), report_(report), places_(std::make_shared<Places>()) {
  places_->number_name = std::move(number_name);
  report_.set_places([places = places_](const CheckExample& example) {
    const auto index = static_cast<std::size_t>(example.index);
    if (example.index < 0 || index >= places->annotations.size()) {
      return std::string();
    }
    const Places::Place at = places->annotations[index];
    return places->text(at.file, at.number);
  });
}

void TablesBuilder::add_category(std::string name) {
  const auto id = static_cast<std::int64_t>(tables_.categories.size()) + 1;
  tables_.categories.push_back({.id = id, .name = std::move(name)});
}

void TablesBuilder::add_image(const std::filesystem::path& path,
                              ImageSize size,
                              const std::filesystem::path& label_file) {
  CocoImage image;
  image.id = next_image_id();
  image.size = size;
  tables_.images.push_back(image);
  images_.push_back(path);
  places_->files.push_back(label_file.string());
}

std::string TablesBuilder::place(std::int64_t number) const {
  return places_->text(places_->files.size() - 1, number);
}

void TablesBuilder::add_object(const LabelObject& object) {
  CocoAnnotation a;
  a.file_index = static_cast<std::int64_t>(tables_.annotations.size());
  a.id = a.file_index + 1;
  a.image_id = static_cast<std::int64_t>(tables_.images.size());
  a.category_id = object.category_id;
  a.box_xywh = object.box_xywh;
  a.box_numbers = object.box_numbers;
  a.is_crowd = object.is_crowd;
  a.has_id = a.has_area = a.has_iscrowd = true;
  a.has_segmentation = !object.polygon.empty();
  places_->annotations.push_back({.file = static_cast<std::uint32_t>(tables_.images.size() - 1),
                                  .number = static_cast<std::uint32_t>(object.number)});
  if (a.has_segmentation) {
    read_mask(a, object);
  } else {
    a.area = a.box_xywh[2] * a.box_xywh[3];
  }
  tables_.annotations.push_back(a);
}

void TablesBuilder::read_mask(CocoAnnotation& annotation, const LabelObject& object) {
  const Box box = polygon_box(object.polygon);
  annotation.box_xywh = {box.x1, box.y1, box.width(), box.height()};
  annotation.first_part = tables_.parts.size();
  tables_.parts.push_back(
      {tables_.coordinates.size(), static_cast<std::uint32_t>(object.polygon.size())});
  tables_.coordinates.insert(tables_.coordinates.end(), object.polygon.begin(),
                             object.polygon.end());
  annotation.usable = drop_invalid_parts(tables_, annotation, report_);
  annotation.area =
      annotation.part_count > 0 ? mask_area(tables_, annotation) : box.width() * box.height();
  if (!options_.keep_segmentation) {
    tables_.parts.resize(annotation.first_part);
    tables_.coordinates.clear();
    annotation.part_count = 0;
  }
}

void TablesBuilder::name_images() {
  std::filesystem::path root = std::filesystem::path(options_.image_root).lexically_normal();
  const auto below = [](const std::filesystem::path& path, const std::filesystem::path& folder) {
    const std::filesystem::path name = path.lexically_relative(folder);
    return !name.empty() && *name.begin() != "..";
  };
  if (root.empty() || !std::all_of(images_.begin(), images_.end(),
                                   [&](const auto& path) { return below(path, root); })) {
    root = common_folder(images_);
  }
  tables_.image_root = root.string();
  for (std::size_t i = 0; i < images_.size(); ++i) {
    const std::string name =
        (root.empty() ? images_[i] : images_[i].lexically_relative(root)).string();
    tables_.images[i].name_begin = tables_.names.size();
    tables_.images[i].name_length = static_cast<std::uint32_t>(name.size());
    tables_.names += name;
  }
}

std::shared_ptr<const CocoStore> TablesBuilder::finish() {
  name_images();
  check_coco(tables_, options_, report_);
  report_.set_totals(report_.images(), report_.annotations() + left_out_,
                     report_.dropped() + left_out_);
  report_.refuse();
  return std::make_shared<const CocoStore>(std::move(tables_));
}

}  // namespace detforge
