#include "detforge/eval/results_json.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <set>
#include <unordered_set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <simdjson.h>

#include "detforge/core/error.h"
#include "detforge/core/files.h"

namespace detforge {
namespace {

namespace ondemand = simdjson::ondemand;

void append_number(std::string& text, double value, const EvalDetection& detection) {
  DETFORGE_CHECK(std::isfinite(value),
                 fmt::format("a detection of image {} has the value {}", detection.image_id, value),
                 "look for NaN or infinity in the model's output");
  char digits[32];
  const auto end = std::to_chars(digits, digits + sizeof digits, value);
  text.append(digits, end.ptr);
}

/// The four numbers of a bbox.
void read_bbox(ondemand::value value, EvalDetection& detection) {
  double numbers[4] = {};
  std::size_t count = 0;
  for (auto element : value.get_array()) {
    const double number = element.get_double();
    if (count < 4) {
      numbers[count] = number;
    }
    ++count;
  }
  DETFORGE_CHECK(count == 4, fmt::format("bbox has {} numbers", count), "give x, y, width, height");
  detection.x = numbers[0];
  detection.y = numbers[1];
  detection.width = numbers[2];
  detection.height = numbers[3];
}

std::int64_t read_id(ondemand::value value, const char* key) {
  std::int64_t id = 0;
  DETFORGE_CHECK(value.get_int64().get(id) == simdjson::SUCCESS,
                 fmt::format("{} is not an integer of 64 bits: {}", key,
                             std::string(std::string_view(value.raw_json_token()).substr(0, 40))),
                 "write ids as plain integers, as in the annotation file");
  return id;
}

EvalDetection read_detection(ondemand::object object) {
  EvalDetection detection;
  bool has_image = false, has_category = false, has_bbox = false, has_score = false;
  for (auto field : object) {
    const std::string_view key = field.unescaped_key();
    if (key == "image_id") {
      detection.image_id = read_id(field.value(), "image_id");
      has_image = true;
    } else if (key == "category_id") {
      detection.category_id = read_id(field.value(), "category_id");
      has_category = true;
    } else if (key == "bbox") {
      read_bbox(field.value(), detection);
      has_bbox = true;
    } else if (key == "score") {
      detection.score = field.value().get_double();
      has_score = true;
    }
  }
  const char* missing = !has_image      ? "image_id"
                        : !has_category ? "category_id"
                        : !has_bbox     ? "bbox"
                        : !has_score    ? "score"
                                        : nullptr;
  DETFORGE_CHECK(missing == nullptr, fmt::format("no key \"{}\"", missing),
                 "each result needs image_id, category_id, bbox and score");
  return detection;
}

std::vector<EvalDetection> read_array(ondemand::array array) {
  std::vector<EvalDetection> detections;
  for (auto element : array) {
    try {
      detections.push_back(read_detection(element.get_object()));
    } catch (Error& error) {
      throw error.add_where(fmt::format("entry {} (counted from 0)", detections.size()));
    } catch (const simdjson::simdjson_error& error) {
      throw Error(
          error.what(),
          "each entry must be {\"image_id\", \"category_id\", \"bbox\": [x, y, w, h], \"score\"}")
          .add_where(fmt::format("entry {} (counted from 0)", detections.size()));
    }
  }
  return detections;
}

std::vector<EvalDetection> read_document(ondemand::document& document) {
  DETFORGE_CHECK(
      document.type() == ondemand::json_type::array, "not a list of results",
      "give a COCO results file: [{\"image_id\", \"category_id\", \"bbox\", \"score\"}, ...]");
  std::vector<EvalDetection> detections = read_array(document.get_array());
  DETFORGE_CHECK(document.current_location().error() == simdjson::OUT_OF_BOUNDS,
                 "text after the end of the list",
                 "check that the file holds one JSON list and nothing else");
  return detections;
}

/// The first few of `ids`, in words.
std::string listed(const std::set<std::int64_t>& ids) {
  const std::vector<std::int64_t> first(
      ids.begin(), std::next(ids.begin(), std::min<std::ptrdiff_t>(5, std::ssize(ids))));
  return fmt::format("{}{}", fmt::join(first, ", "), ids.size() > first.size() ? ", ..." : "");
}

}  // namespace

std::string results_json_text(std::span<const EvalDetection> detections) {
  std::string text = "[";
  text.reserve(detections.size() * 128);
  for (const EvalDetection& detection : detections) {
    text += text.size() > 1 ? ",\n" : "";
    text += fmt::format("{{\"image_id\":{},\"category_id\":{},\"bbox\":[", detection.image_id,
                        detection.category_id);
    for (const double value : {detection.x, detection.y, detection.width, detection.height}) {
      append_number(text, value, detection);
      text += ',';
    }
    text.back() = ']';
    text += ",\"score\":";
    append_number(text, detection.score, detection);
    text += '}';
  }
  return text + "]\n";
}

void write_results_json(const std::filesystem::path& path,
                        std::span<const EvalDetection> detections) {
  files::write_atomic(path, results_json_text(detections));
}

std::vector<EvalDetection> read_results_json(const std::filesystem::path& path) {
  try {
    const simdjson::padded_string text(files::read(path));
    ondemand::parser parser;
    ondemand::document document = parser.iterate(text);
    return read_document(document);
  } catch (Error& error) {
    throw error.add_where(path.string());
  } catch (const simdjson::simdjson_error& error) {
    throw Error(fmt::format("not a COCO results file: {}", error.what()),
                "check that the file is complete JSON")
        .add_where(path.string());
  }
}

void check_results_ids(std::span<const EvalDetection> detections, const EvalInputs& inputs) {
  const std::unordered_set<std::int64_t> images(inputs.image_ids.begin(), inputs.image_ids.end());
  std::unordered_set<std::int64_t> categories;
  for (const EvalCategory& category : inputs.categories) {
    categories.insert(category.id);
  }
  std::set<std::int64_t> unknown_images, unknown_categories;
  for (const EvalDetection& detection : detections) {
    if (!images.contains(detection.image_id)) {
      unknown_images.insert(detection.image_id);
    }
    if (!categories.contains(detection.category_id)) {
      unknown_categories.insert(detection.category_id);
    }
  }
  DETFORGE_CHECK(unknown_images.empty(),
                 fmt::format("{} image id(s) are not in the data set: {}", unknown_images.size(),
                             listed(unknown_images)),
                 "evaluate the results on the annotation file they were made for");
  DETFORGE_CHECK(unknown_categories.empty(),
                 fmt::format("{} category id(s) are not in the data set: {}",
                             unknown_categories.size(), listed(unknown_categories)),
                 "results must carry the file's category ids, not class numbers 0..K-1");
}

}  // namespace detforge
