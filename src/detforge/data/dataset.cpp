#include "detforge/data/dataset.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "detforge/core/error.h"
#include "detforge/core/log.h"
#include "detforge/data/class_names.h"
#include "detforge/data/sampler.h"

namespace detforge {
namespace {

std::vector<std::string> names_of(const CocoStore& store) {
  std::vector<std::string> names;
  for (const CocoCategory& category : store.categories()) {
    names.push_back(category.name);
  }
  return names;
}

std::vector<std::string> sorted(std::vector<std::string> names) {
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

CocoDataset::CocoDataset(CocoDatasetOptions options) : options_(std::move(options)) {
  DETFORGE_CHECK(!options_.files.empty(), "the data set has no annotation file",
                 "name at least one");
  load_files();
  choose_classes();
  histogram_.assign(class_names_.size(), 0);
  for (std::size_t file = 0; file < stores_.size(); ++file) {
    match_classes(file);
    count_objects(file);
  }
  check_class_counts();
  log_reports();
  choose_images();
}

void CocoDataset::load_files() {
  CheckPolicy policy = options_.policy;
  if (options_.bad_image == CocoDatasetOptions::BadImage::kSkip) {
    policy.set(CheckKind::kImageUnreadable, CheckAction::kDrop);
  }
  for (const CocoFiles& files : options_.files) {
    CheckReport& report = reports_.emplace_back(policy);
    stores_.push_back(load_annotations(files.format, files.json,
                                       {.image_root = files.image_root,
                                        .keep_segmentation = options_.keep_segmentation,
                                        .apply_orientation = options_.read.apply_orientation,
                                        .split = files.split,
                                        .class_names = options_.classes,
                                        .voc = options_.voc},
                                       report));
  }
}

void CocoDataset::choose_classes() {
  const std::vector<std::string> first = names_of(*stores_[0]);
  class_names_ = options_.classes.empty() ? first : options_.classes;
  DETFORGE_CHECK(!class_names_.empty(), fmt::format("{} has no categories", options_.files[0].json),
                 "add them");
  const std::vector<std::string> ordered = sorted(class_names_);
  const auto twice = std::adjacent_find(ordered.begin(), ordered.end());
  DETFORGE_CHECK(twice == ordered.end(), fmt::format("class {} is listed twice", *twice),
                 "list each class once");
  for (std::size_t file = 1; options_.classes.empty() && file < stores_.size(); ++file) {
    const std::vector<std::string> other = sorted(names_of(*stores_[file]));
    std::vector<std::string> differing;
    std::set_symmetric_difference(ordered.begin(), ordered.end(), other.begin(), other.end(),
                                  std::back_inserter(differing));
    DETFORGE_CHECK(
        differing.empty(),
        fmt::format("{} and {} do not have the same categories; only one has: {}",
                    options_.files[0].json, options_.files[file].json, fmt::join(differing, ", ")),
        "rename the categories, or list the classes to train on");
  }
}

/// Labels of one file's categories, by name.
void CocoDataset::match_classes(std::size_t file) {
  const auto categories = stores_[file]->categories();
  std::vector<std::int64_t>& labels = labels_.emplace_back(categories.size(), -1);
  std::vector<std::optional<std::int64_t>> ids(class_names_.size());
  std::vector<std::string> missing;
  for (std::size_t label = 0; label < class_names_.size(); ++label) {
    const auto at = std::find_if(categories.begin(), categories.end(), [&](const CocoCategory& c) {
      return c.name == class_names_[label];
    });
    if (at != categories.end()) {
      labels[static_cast<std::size_t>(at - categories.begin())] = static_cast<std::int64_t>(label);
      ids[label] = at->id;
      continue;
    }
    missing.push_back(with_nearest(class_names_[label], names_of(*stores_[file])));
    reports_[file].add(CheckKind::kClassNotInFile, [&] {
      return CheckExample{.index = static_cast<std::int64_t>(label), .detail = missing.back()};
    });
  }
  if (missing.size() == class_names_.size()) {
    throw Error(
        fmt::format("none of the listed classes is in the file: {}", fmt::join(missing, ", ")),
        fmt::format("its categories are: {}", fmt::join(names_of(*stores_[file]), ", ")))
        .add_where(options_.files[file].json)
        .at(__FILE__, __LINE__);
  }
  if (file == 0) {
    category_ids_ = std::move(ids);
  }
}

void CocoDataset::count_objects(std::size_t file) {
  CheckReport& report = reports_[file];
  std::int64_t filtered = 0;
  for (const CocoAnnotation& a : stores_[file]->annotations()) {
    if (!a.usable) {
      continue;
    }
    const std::int64_t label = label_of(file, a);
    if (label >= 0) {
      histogram_[static_cast<std::size_t>(label)] += a.is_crowd ? 0 : 1;
      continue;
    }
    ++filtered;
    report.add(CheckKind::kClassFiltered, [&] {
      return CheckExample{
          .index = a.file_index,
          .id = a.id,
          .image_id = a.image_id,
          .detail = stores_[file]->categories()[static_cast<std::size_t>(a.category)].name};
    });
  }
  report.set_totals(report.images(), report.annotations(), report.dropped() + filtered);
}

/// Whether there are usable annotations, but none, not even a crowd, of a listed class.
bool CocoDataset::all_filtered() const {
  std::int64_t filtered = 0;
  for (std::size_t file = 0; file < stores_.size(); ++file) {
    for (const CocoAnnotation& a : stores_[file]->annotations()) {
      if (a.usable && label_of(file, a) >= 0) {
        return false;
      }
      filtered += a.usable ? 1 : 0;
    }
  }
  return filtered > 0;
}

/// A test set may have no object at all: its metrics are then n/a.
void CocoDataset::check_class_counts() {
  std::int64_t annotations = 0;
  for (const CheckReport& report : reports_) {
    annotations += report.annotations();
  }
  const std::int64_t objects =
      std::accumulate(histogram_.begin(), histogram_.end(), std::int64_t{0});
  if (objects == 0 && (options_.filter_empty || all_filtered())) {
    std::string dropped;
    for (const CheckReport& report : reports_) {
      dropped += report.dropped_sentence() + " ";
    }
    throw Error(fmt::format("no usable object is left of {} annotations. {}", annotations, dropped),
                fmt::format("compare the class list ({}) with the file's categories ({})",
                            fmt::join(class_names_, ", "), fmt::join(names_of(*stores_[0]), ", ")))
        .add_where(options_.files[0].json)
        .at(__FILE__, __LINE__);
  }
  for (std::size_t label = 0; objects > 0 && label < histogram_.size(); ++label) {
    if (histogram_[label] == 0) {
      reports_[0].add(CheckKind::kClassWithoutInstances, [&] {
        return CheckExample{.index = static_cast<std::int64_t>(label),
                            .id = category_ids_[label],
                            .detail = class_names_[label]};
      });
    }
  }
  for (const CheckReport& report : reports_) {
    report.refuse();
  }
}

void CocoDataset::choose_images() {
  std::int64_t empty = 0, empty_kept = 0, small = 0;
  for (std::size_t file = 0; file < stores_.size(); ++file) {
    const auto images = stores_[file]->images();
    for (std::size_t i = 0; i < images.size(); ++i) {
      const ImageSize size = images[i].size;
      if (size.width > 0 && std::min(size.width, size.height) < options_.min_side) {
        ++small;
        continue;
      }
      const auto annotations = stores_[file]->annotations(images[i]);
      const bool has_objects =
          std::any_of(annotations.begin(), annotations.end(), [&](const CocoAnnotation& a) {
            return a.usable && !a.is_crowd && label_of(file, a) >= 0;
          });
      if (!has_objects && options_.filter_empty) {
        ++empty;
        // The j-th empty image stays when the number to keep of the first j grows.
        if (std::floor(static_cast<double>(empty) * options_.keep_empty_frac) <=
            static_cast<double>(empty_kept)) {
          continue;
        }
        ++empty_kept;
      }
      items_.push_back({file, i});
    }
  }
  if (empty > empty_kept || small > 0) {
    log::info(
        "Left out {} images without usable objects and {} smaller than {} pixels; {} images are "
        "left.",
        empty - empty_kept, small, options_.min_side, size());
  }
  DETFORGE_CHECK(size() > 0, fmt::format("no image is left of {}", options_.files[0].json),
                 "check min_side, filter_empty and the annotations");
}

void CocoDataset::log_reports() const {
  for (const CheckReport& report : reports_) {
    const std::string text = report.to_text();
    if (!text.empty()) {
      log::write(report.has_problems() ? log::Level::kWarn : log::Level::kInfo, text);
    }
  }
  log::info("{}", class_table());
}

const CocoImage& CocoDataset::image(std::int64_t index) const {
  DETFORGE_CHECK(index >= 0 && index < size(),
                 fmt::format("image index {} of a data set of {}", index, size()),
                 "this is a bug of the caller");
  const Item item = items_[static_cast<std::size_t>(index)];
  return stores_[item.file]->images()[item.image];
}

std::string_view CocoDataset::file_name(std::int64_t index) const {
  const CocoImage& record = image(index);
  return stores_[items_[static_cast<std::size_t>(index)].file]->file_name(record);
}

std::string CocoDataset::path(std::int64_t index) const {
  return stores_[items_[static_cast<std::size_t>(index)].file]->image_path(image(index));
}

std::vector<bool> CocoDataset::is_wide() const {
  std::vector<bool> wide;
  for (std::int64_t i = 0; i < size(); ++i) {
    wide.push_back(image_size(i).width > image_size(i).height);
  }
  return wide;
}

std::vector<double> CocoDataset::repeat_factors(double threshold) const {
  std::vector<std::vector<std::int64_t>> labels;
  for (const Item item : items_) {
    std::vector<std::int64_t>& in_image = labels.emplace_back();
    for (const CocoAnnotation& a :
         stores_[item.file]->annotations(stores_[item.file]->images()[item.image])) {
      if (a.usable && label_of(item.file, a) >= 0) {
        in_image.push_back(label_of(item.file, a));
      }
    }
  }
  return repeat_factors_from_category_frequency(labels, threshold);
}

std::string CocoDataset::class_table() const {
  std::string text = fmt::format("{:>6}{:>22}{:>10}  class", "label", "category id", "objects");
  for (std::size_t k = 0; k < class_names_.size(); ++k) {
    text += fmt::format("\n{:>6}{:>22}{:>10}  {}", k,
                        category_ids_[k] ? std::to_string(*category_ids_[k]) : "none",
                        histogram_[k], class_names_[k]);
  }
  return text;
}

}  // namespace detforge
