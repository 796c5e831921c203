#include "detforge/data/write_dataset.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "detforge/core/error.h"
#include "detforge/core/nearest_name.h"
#include "detforge/data/write_formats.h"

namespace detforge {

namespace fs = std::filesystem;

DatasetWriter::DatasetWriter(const CocoStore& store, const WriteOptions& options)
    : store_(store), options_(options) {
  const auto categories = store.categories();
  label_of_category_.assign(categories.size(), -1);
  std::vector<std::string> all;
  for (const CocoCategory& category : categories) {
    all.push_back(category.name);
  }
  class_names_ = options.classes.empty() ? all : options.classes;
  for (std::size_t label = 0; label < class_names_.size(); ++label) {
    const std::string& name = class_names_[label];
    const auto at = std::find(all.begin(), all.end(), name);
    if (at == all.end()) {
      const std::string near = nearest_name(name, all);
      throw Error(fmt::format("the dataset has no class {}", name),
                  near.empty() ? fmt::format("choose from: {}", fmt::join(all, ", "))
                               : fmt::format("did you mean {}?", near))
          .at(__FILE__, __LINE__);
    }
    const auto category = static_cast<std::size_t>(at - all.begin());
    DETFORGE_CHECK(label_of_category_[category] < 0, fmt::format("class {} is listed twice", name),
                   "list each class once");
    label_of_category_[category] = static_cast<std::int64_t>(label);
    category_ids_.push_back(options.classes.empty() ? categories[category].id
                                                    : static_cast<std::int64_t>(label) + 1);
  }
}

std::int64_t DatasetWriter::label_of(const CocoAnnotation& annotation) const {
  return annotation.usable ? label_of_category_[static_cast<std::size_t>(annotation.category)] : -1;
}

std::vector<fs::path> DatasetWriter::image_names(bool without_extension) const {
  std::vector<fs::path> names;
  std::map<fs::path, std::string> taken;
  for (const CocoImage& image : store_.images()) {
    const std::string written(store_.file_name(image));
    fs::path name = fs::path(written).lexically_normal();
    if (name.is_absolute() || *name.begin() == "..") {
      name = name.filename();
    }
    const fs::path key = without_extension ? fs::path(name).replace_extension() : name;
    const auto [other, is_new] = taken.emplace(key, written);
    DETFORGE_CHECK(is_new,
                   fmt::format("{} and {} would both be {}", other->second, written, key.string()),
                   "rename one of the images");
    names.push_back(std::move(name));
  }
  return names;
}

void DatasetWriter::require_free(const fs::path& path) const {
  if (!options_.replace && fs::exists(path)) {
    throw Error("the file is there already",
                "choose another output folder, or replace what is there (--force)")
        .add_where(path.string())
        .at(__FILE__, __LINE__);
  }
}

void DatasetWriter::put_image(const CocoImage& image,
                              const fs::path& to,
                              const fs::path& place) const {
  if (options_.images == WriteOptions::Images::kLeave) {
    return;
  }
  const fs::path from = store_.image_path(image);
  std::error_code error;
  if (fs::equivalent(from, place, error)) {
    return;
  }
  error.clear();
  fs::create_directories(to.parent_path(), error);
  if (!fs::is_regular_file(from)) {
    error = std::make_error_code(std::errc::no_such_file_or_directory);
  } else if (options_.images == WriteOptions::Images::kCopy) {
    fs::copy_file(from, to, error);
  } else {
    fs::create_symlink(fs::canonical(from), to, error);
  }
  if (error) {
    throw Error("cannot copy or link the image: " + error.message(),
                "give the folder of the images (--images), or leave the images where they are")
        .add_where(from.string())
        .at(__FILE__, __LINE__);
  }
}

ImageSize DatasetWriter::size_of(const CocoImage& image) const {
  if (image.size.height <= 0 || image.size.width <= 0) {
    throw Error("the size of the image is not known",
                "give the folder of the images (--images), from which it can be read")
        .add_where(fmt::format("image {}, {}", image.id, store_.file_name(image)))
        .at(__FILE__, __LINE__);
  }
  return image.size;
}

std::string decimal(double value, int digits) {
  std::string text = fmt::format("{:.{}f}", value, digits);
  if (text.find('.') != std::string::npos) {
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') {
      text.pop_back();
    }
  }
  return text == "-0" ? "0" : text;
}

std::string json_text(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

WriteReport write_dataset(AnnotationFormat format,
                          const CocoStore& store,
                          const WriteOptions& options) {
  DETFORGE_CHECK(!options.split.empty() && options.split.find('/') == std::string::npos,
                 fmt::format("an image set cannot be called \"{}\"", options.split),
                 "use a name such as train");
  DatasetWriter writer(store, options);
  switch (format) {
    case AnnotationFormat::kYolo:
      write_yolo(writer);
      break;
    case AnnotationFormat::kVoc:
      write_voc(writer);
      break;
    default:
      write_coco(writer);
  }
  return writer.report;
}

}  // namespace detforge
