// read_results_json()
#include <cmath>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <simdjson.h>

#include "detforge/core/error.h"
#include "detforge/data/json_values.h"
#include "detforge/data/rle_json.h"
#include "detforge/eval/results_json.h"
#include "detforge/structures/polygon_raster.h"
#include "detforge/structures/rle.h"

namespace detforge {
namespace {

namespace od = simdjson::ondemand;

class ResultsReader {
 public:
  explicit ResultsReader(const ResultsReadOptions& options) : options_(options) {}

  /// Room for the masks of so much text. Memory that is not used stays untouched, so that reading
  /// too much into the size costs nothing, and masks are never copied.
  void reserve(std::size_t text_bytes) {
    constexpr std::size_t kBytesPerRun = 2;  // a character or two each, and the other keys
    results_.masks.reserve(0, text_bytes / kBytesPerRun);
  }
  void read(od::document& document);
  CocoResults take() { return std::move(results_); }

 private:
  void read_entry(od::object object);
  void read_bbox(od::value& value);
  void read_mask(od::value& value);
  void read_polygons(od::array parts);
  void draw_polygons();
  void take_box_from_mask();
  void check_complete() const;

  const ResultsReadOptions& options_;
  CocoResults results_;
  // The entry at hand.
  EvalDetection current_;
  bool has_image_ = false, has_category_ = false, has_bbox_ = false, has_score_ = false;
  bool has_mask_ = false, has_polygons_ = false;
  std::vector<std::vector<double>> polygons_;  // to be drawn once the image is known
};

void ResultsReader::read(od::document& document) {
  DETFORGE_CHECK(
      document.type() == od::json_type::array, "not a list of results",
      "give a COCO results file: [{\"image_id\", \"category_id\", \"bbox\", \"score\"}, ...]");
  const auto where = [this] {
    return fmt::format("entry {} (counted from 0)", results_.detections.size());
  };
  for (auto element : document.get_array()) {
    try {
      read_entry(element.get_object());
    } catch (Error& error) {
      throw error.add_where(where());
    } catch (const simdjson::simdjson_error& error) {
      throw Error(
          error.what(),
          "each entry must be {\"image_id\", \"category_id\", \"bbox\": [x, y, w, h], \"score\"}")
          .add_where(where());
    }
  }
  DETFORGE_CHECK(document.current_location().error() == simdjson::OUT_OF_BOUNDS,
                 "text after the end of the list",
                 "check that the file holds one JSON list and nothing else");
}

void ResultsReader::read_entry(od::object object) {
  current_ = {};
  has_image_ = has_category_ = has_bbox_ = has_score_ = has_mask_ = has_polygons_ = false;
  for (auto field : object) {
    const od::raw_json_string key = field.key();
    od::value value = field.value();
    if (key == "image_id") {
      current_.image_id = read_id(value, "image_id");
      has_image_ = true;
    } else if (key == "category_id") {
      current_.category_id = read_id(value, "category_id");
      has_category_ = true;
    } else if (key == "bbox") {
      read_bbox(value);
    } else if (key == "score") {
      current_.score = read_number(value, "score");
      has_score_ = true;
    } else if (key == "segmentation" && options_.masks) {
      read_mask(value);
    }
  }
  if (!has_bbox_ && !options_.masks) {  // a second look, for the mask that the first one skipped
    object.reset().value();
    od::value mask;
    if (object.find_field_unordered("segmentation").get(mask) == simdjson::SUCCESS) {
      read_mask(mask);
    }
  }
  check_complete();
  results_.has_boxes |= has_bbox_ && results_.detections.empty();
  if (has_polygons_) {
    draw_polygons();
  }
  if (!has_bbox_) {
    take_box_from_mask();
  }
  if (!options_.masks) {
    results_.masks.clear();
  }
  results_.detections.push_back(current_);
}

/// The four numbers of a bbox. None at all count as no key, as in pycocotools.
void ResultsReader::read_bbox(od::value& value) {
  double numbers[4] = {};
  std::size_t count = 0;
  for (auto element : value.get_array()) {
    od::value item = element.value();
    const double number = read_number(item, "bbox");
    DETFORGE_CHECK(std::isfinite(number), fmt::format("bbox has the value {}", number),
                   "give finite numbers");
    if (count < 4) {
      numbers[count] = number;
    }
    ++count;
  }
  if (count == 0) {
    return;
  }
  DETFORGE_CHECK(count == 4, fmt::format("bbox has {} numbers", count), "give x, y, width, height");
  current_.x = numbers[0];
  current_.y = numbers[1];
  current_.width = numbers[2];
  current_.height = numbers[3];
  has_bbox_ = true;
}

void ResultsReader::read_mask(od::value& value) {
  constexpr const char* kAdvice =
      "write {\"size\": [height, width], \"counts\": TEXT or [run, run, ...]}, or a list of "
      "polygons";
  DETFORGE_CHECK(!has_mask_, "two keys \"segmentation\"", "give each entry one mask");
  has_mask_ = true;
  const od::json_type type = value.type();
  if (type == od::json_type::array) {
    read_polygons(value.get_array());
    return;
  }
  DETFORGE_CHECK(type == od::json_type::object, fmt::format("segmentation is {}", token_of(value)),
                 kAdvice);
  try {
    results_.masks.emplace_back([&](std::vector<std::uint32_t>& runs) {
      return append_rle_json(value.get_object(), runs);
    });
  } catch (const Error& error) {
    throw Error(error.message(), error.fix().empty() ? kAdvice : error.fix());
  }
}

void ResultsReader::read_polygons(od::array parts) {
  has_polygons_ = true;
  polygons_.clear();
  for (auto part : parts) {
    polygons_.emplace_back();
    for (auto element : part.get_array()) {
      od::value number = element.value();
      polygons_.back().push_back(read_number(number, "segmentation"));
    }
  }
}

void ResultsReader::draw_polygons() {
  const CocoImage* image =
      options_.images != nullptr ? options_.images->find_image(current_.image_id) : nullptr;
  DETFORGE_CHECK(image != nullptr && image->size.height > 0 && image->size.width > 0,
                 fmt::format("the mask is given as polygons, and the size of image {} is not known",
                             current_.image_id),
                 "give the masks as RLE, or the annotation file with the sizes of all images");
  results_.masks.push_back(polygons_mask(polygons_, image->size));
}

void ResultsReader::take_box_from_mask() {
  const RleView mask = results_.masks[results_.masks.size() - 1];
  const Box box = rle_box(mask.counts, mask.size.height);
  current_.x = box.x1;
  current_.y = box.y1;
  current_.width = box.width();
  current_.height = box.height();
}

void ResultsReader::check_complete() const {
  const char* missing = !has_image_                    ? "\"image_id\""
                        : !has_category_               ? "\"category_id\""
                        : !has_bbox_ && !has_mask_     ? "\"bbox\" with numbers"
                        : !has_score_                  ? "\"score\""
                        : options_.masks && !has_mask_ ? "\"segmentation\""
                                                       : nullptr;
  DETFORGE_CHECK(missing == nullptr, fmt::format("no key {}", missing),
                 options_.masks ? "each result needs image_id, category_id, segmentation and score"
                                : "each result needs image_id, category_id, bbox and score");
  DETFORGE_CHECK(std::isfinite(current_.score), fmt::format("score is {}", current_.score),
                 "give a finite number");
}

}  // namespace

CocoResults read_results_json(const std::filesystem::path& path,
                              const ResultsReadOptions& options) {
  simdjson::padded_string text;
  DETFORGE_CHECK(simdjson::padded_string::load(path.string()).get(text) == simdjson::SUCCESS,
                 fmt::format("cannot read {}", path.string()),
                 "check the path and its permissions");
  try {
    od::parser parser;
    od::document document = parser.iterate(text);
    ResultsReader reader(options);
    if (options.masks) {
      reader.reserve(text.size());
    }
    reader.read(document);
    return reader.take();
  } catch (Error& error) {
    throw error.add_where(path.string());
  } catch (const simdjson::simdjson_error& error) {
    throw Error(fmt::format("not a COCO results file: {}", error.what()),
                "check that the file is complete JSON")
        .add_where(path.string());
  }
}

}  // namespace detforge
