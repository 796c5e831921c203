#include "detforge/data/coco_json.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <simdjson.h>

#include "detforge/core/error.h"
#include "detforge/data/coco_masks.h"
#include "detforge/data/json_values.h"
#include "detforge/data/rle_json.h"

namespace detforge {
namespace {

namespace od = simdjson::ondemand;

class CocoReader {
 public:
  CocoReader(bool keep_segmentation, CheckReport& report)
      : keep_segmentation_(keep_segmentation), report_(report) {}
  void read(od::document& document);
  CocoTables take() { return std::move(tables_); }

 private:
  void read_list(std::string_view key,
                 od::value& value,
                 void (CocoReader::*read_record)(od::object));
  void read_image(od::object object);
  void read_category(od::object object);
  void read_annotation(od::object object);
  void read_box(od::value& value);
  void read_segmentation(od::value& value);
  void read_polygons(od::array parts);
  void read_rle(od::object object);
  void finish_masks();

  const bool keep_segmentation_;
  CheckReport& report_;
  CocoTables tables_;
  CocoAnnotation current_;
  bool current_has_image_ = false, current_has_category_ = false;
  std::string rle_problem_;
  std::int64_t index_ = 0;
  bool has_images_ = false, has_annotations_ = false, has_categories_ = false;
};

void CocoReader::read(od::document& document) {
  for (auto field : document.get_object()) {
    const std::string_view key = field.unescaped_key();
    od::value value = field.value();
    if (key == "images") {
      has_images_ = true;
      read_list("image", value, &CocoReader::read_image);
    } else if (key == "annotations") {
      has_annotations_ = true;
      read_list("annotation", value, &CocoReader::read_annotation);
    } else if (key == "categories") {
      has_categories_ = true;
      read_list("category", value, &CocoReader::read_category);
    }
  }
  DETFORGE_CHECK(has_images_ && has_annotations_ && has_categories_,
                 fmt::format("the file has no \"{}\"", !has_images_        ? "images"
                                                       : !has_annotations_ ? "annotations"
                                                                           : "categories"),
                 "give a COCO instances file: {\"images\": [...], \"annotations\": [...], "
                 "\"categories\": [...]}");
}

void CocoReader::read_list(std::string_view key,
                           od::value& value,
                           void (CocoReader::*read_record)(od::object)) {
  index_ = 0;
  for (auto item : value.get_array()) {
    try {
      (this->*read_record)(item.get_object());
    } catch (Error& error) {
      const bool has_id = key == "annotation" && current_.has_id;
      error.add_where(
          has_id ? fmt::format("annotation {} (number {} in the file)", current_.id, index_)
                 : fmt::format("{} number {} in the file", key, index_));
      throw;
    }
    ++index_;
  }
}

void CocoReader::read_image(od::object object) {
  CocoImage image;
  bool has_id = false;
  for (auto field : object) {
    const od::raw_json_string key = field.key();
    od::value value = field.value();
    if (key == "id") {
      image.id = read_id(value, "id");
      has_id = true;
    } else if (key == "file_name" && !is_null(value)) {
      const std::string_view name = value.get_string();
      image.name_begin = tables_.names.size();
      image.name_length = static_cast<std::uint32_t>(name.size());
      tables_.names += name;
    } else if (key == "height") {
      image.size.height = read_size(value, "height");
    } else if (key == "width") {
      image.size.width = read_size(value, "width");
    }
  }
  DETFORGE_CHECK(has_id, "the image has no \"id\"", "give each image an id of its own");
  tables_.images.push_back(image);
}

void CocoReader::read_category(od::object object) {
  CocoCategory category;
  bool has_id = false;
  for (auto field : object) {
    const od::raw_json_string key = field.key();
    od::value value = field.value();
    if (key == "id") {
      category.id = read_id(value, "id");
      has_id = true;
    } else if (key == "name") {
      category.name = std::string_view(value.get_string());
    }
  }
  DETFORGE_CHECK(has_id && !category.name.empty(),
                 fmt::format("the category has no \"{}\"", has_id ? "name" : "id"),
                 "give each category an id and a name");
  tables_.categories.push_back(std::move(category));
}

void CocoReader::read_annotation(od::object object) {
  current_ = {};
  current_.file_index = index_;
  current_.first_part = tables_.parts.size();
  current_has_image_ = current_has_category_ = false;
  rle_problem_.clear();
  for (auto field : object) {
    const od::raw_json_string key = field.key();
    od::value value = field.value();
    if (key == "id") {
      current_.has_id = !is_null(value);
      current_.id = current_.has_id ? read_id(value, "id") : 0;
    } else if (key == "image_id") {
      current_.image_id = read_id(value, "image_id");
      current_has_image_ = true;
    } else if (key == "category_id") {
      current_.category_id = read_id(value, "category_id");
      current_has_category_ = true;
    } else if (key == "bbox") {
      read_box(value);
    } else if (key == "area") {
      current_.area = read_number(value, "area");
      current_.has_area = std::isfinite(current_.area);
    } else if (key == "iscrowd") {
      current_.has_iscrowd = !is_null(value);
      current_.is_crowd = current_.has_iscrowd && read_flag(value, "iscrowd");
    } else if (key == "segmentation") {
      read_segmentation(value);
    }
  }
  DETFORGE_CHECK(
      current_has_image_ && current_has_category_,
      fmt::format("the annotation has no \"{}\"", current_has_image_ ? "category_id" : "image_id"),
      "each annotation needs image_id and category_id");
  finish_masks();
  tables_.annotations.push_back(current_);
}

void CocoReader::read_box(od::value& value) {
  if (is_null(value)) {
    return;
  }
  std::size_t numbers = 0;
  for (auto element : value.get_array()) {
    od::value number = element.value();
    const double x = read_number(number, "bbox");
    if (numbers < current_.box_xywh.size()) {
      current_.box_xywh[numbers] = x;
    }
    ++numbers;
  }
  // An empty list is a box that has the wrong number of values, not a box that is missing.
  current_.box_numbers =
      numbers == 0 ? 255 : static_cast<std::uint8_t>(std::min<std::size_t>(numbers, 254));
}

void CocoReader::read_segmentation(od::value& value) {
  const od::json_type type = value.type();
  if (type == od::json_type::array) {
    current_.has_segmentation = true;
    read_polygons(value.get_array());
  } else if (type == od::json_type::object) {
    current_.has_segmentation = true;
    try {
      read_rle(value.get_object());
    } catch (Error& error) {
      rle_problem_ = error.message();
    }
  } else {
    DETFORGE_CHECK(
        is_null(value), fmt::format("segmentation is {}", token_of(value)),
        "write a list of polygons, or an RLE {\"size\": [height, width], \"counts\": ...}");
  }
}

void CocoReader::read_polygons(od::array parts) {
  bool flat = false;  // one polygon without the outer list, as some converters write it
  const auto begin_part = [this] { tables_.parts.push_back({tables_.coordinates.size(), 0}); };
  const auto push = [this](od::value& value) {
    tables_.coordinates.push_back(read_number(value, "segmentation"));
    ++tables_.parts.back().count;
  };
  for (auto part : parts) {
    od::value value = part.value();
    if (value.type() != od::json_type::array) {
      if (!std::exchange(flat, true)) {
        begin_part();
      }
      push(value);
      continue;
    }
    begin_part();
    for (auto element : value.get_array()) {
      od::value number = element.value();
      push(number);
    }
  }
}

void CocoReader::read_rle(od::object object) {
  const std::size_t begin = tables_.counts.size();
  try {
    const ImageSize size = append_rle_json(object, tables_.counts);
    current_.rle = static_cast<std::int32_t>(tables_.rles.size());
    tables_.rles.push_back(
        {begin, static_cast<std::uint32_t>(tables_.counts.size() - begin), size});
  } catch (Error&) {
    tables_.counts.resize(begin);
    throw;
  }
}

/// Reports what is wrong with the mask, takes missing area and box from it, and drops it if it is
/// not kept.
void CocoReader::finish_masks() {
  bool drop = false;
  if (!current_.has_segmentation) {
    drop |= report_.add(CheckKind::kMissingSegmentation, [&] { return example_of(current_); }) ==
            CheckAction::kDrop;
  } else if (!rle_problem_.empty()) {
    drop |= report_.add(CheckKind::kRleMalformed,
                        [&] { return example_of(current_, rle_problem_); }) == CheckAction::kDrop;
  } else if (current_.rle < 0) {
    drop |= !drop_invalid_parts(tables_, current_, report_);
  } else if (mask_area(tables_, current_) == 0) {
    drop |= report_.add(CheckKind::kMaskInvalid, [&] {
      return example_of(current_, "the RLE has no pixel set");
    }) == CheckAction::kDrop;
  }
  const bool has_mask =
      current_.part_count > 0 || (current_.rle >= 0 && mask_area(tables_, current_) > 0);
  if (current_.box_numbers == 0 && has_mask) {
    drop |= report_.add(CheckKind::kBoxFromMask, [&] { return example_of(current_); }) ==
            CheckAction::kDrop;
    const Box box = mask_box(tables_, current_);
    current_.box_xywh = {box.x1, box.y1, box.width(), box.height()};
    current_.box_numbers = 4;
  }
  if (!current_.has_area) {
    drop |= report_.add(CheckKind::kMissingArea, [&] { return example_of(current_); }) ==
            CheckAction::kDrop;
    current_.area =
        has_mask ? mask_area(tables_, current_) : current_.box_xywh[2] * current_.box_xywh[3];
  }
  if (!current_.has_iscrowd) {
    drop |= report_.add(CheckKind::kMissingIscrowd, [&] { return example_of(current_); }) ==
            CheckAction::kDrop;
  }
  current_.usable = !drop;
  if (!keep_segmentation_) {
    tables_.parts.resize(current_.first_part);
    tables_.coordinates.clear();
    current_.part_count = 0;
    if (current_.rle >= 0) {
      tables_.counts.clear();  // the size stays, to be compared with the image's
      tables_.rles.back().count = 0;
    }
  }
}

Error broken_json(const simdjson::simdjson_error& error,
                  od::document& document,
                  std::string_view text) {
  const char* at = nullptr;
  const bool inside = document.current_location().get(at) == simdjson::SUCCESS &&
                      at >= text.data() && at <= text.data() + text.size();
  const std::size_t offset = inside ? static_cast<std::size_t>(at - text.data()) : text.size();
  const auto line =
      1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(offset), '\n');
  return Error(fmt::format("not valid, or not as expected, near byte {} (line {}): {}", offset,
                           line, error.what()),
               "was the file cut? Check it with: python3 -m json.tool FILE");
}

}  // namespace

CocoTables read_coco_json(const std::string& path, bool keep_segmentation, CheckReport& report) {
  simdjson::padded_string content;
  if (const auto code = simdjson::padded_string::load(path).get(content);
      code != simdjson::SUCCESS) {
    throw Error("cannot read the annotation file", "check the path and its permissions")
        .add_where(path)
        .at(__FILE__, __LINE__);
  }
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  std::string_view text(content.data(), content.size());
  if (text.starts_with(kByteOrderMark)) {
    text.remove_prefix(kByteOrderMark.size());
  }
  od::parser parser(std::numeric_limits<std::uint32_t>::max());
  od::document document;
  CocoReader reader(keep_segmentation, report);
  try {
    const simdjson::padded_string_view padded(text, text.size() + simdjson::SIMDJSON_PADDING);
    if (const auto code = parser.iterate(padded).get(document); code != simdjson::SUCCESS) {
      throw Error(
          fmt::format("not a JSON file: {} ({} bytes)", simdjson::error_message(code), text.size()),
          "was the file cut? Check it with: python3 -m json.tool FILE")
          .at(__FILE__, __LINE__);
    }
    reader.read(document);
  } catch (Error& error) {
    error.add_where(path);
    throw;
  } catch (const simdjson::simdjson_error& error) {
    throw broken_json(error, document, text).add_where(path).at(__FILE__, __LINE__);
  }
  return reader.take();
}

}  // namespace detforge
