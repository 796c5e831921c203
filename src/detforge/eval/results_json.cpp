// Writing of results files, and check_results_ids(); reading is in results_reader.cpp.
#include "detforge/eval/results_json.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <unordered_set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "detforge/core/error.h"
#include "detforge/core/files.h"
#include "detforge/structures/rle.h"

namespace detforge {
namespace {

void append_number(std::string& text, double value, const EvalDetection& detection) {
  DETFORGE_CHECK(std::isfinite(value),
                 fmt::format("a detection of image {} has the value {}", detection.image_id, value),
                 "look for NaN or infinity in the model's output");
  char digits[32];
  const auto end = std::to_chars(digits, digits + sizeof digits, value);
  text.append(digits, end.ptr);
}

void append_mask(std::string& text, RleView mask) {
  text += fmt::format(",\"segmentation\":{{\"size\":[{},{}],\"counts\":\"", mask.size.height,
                      mask.size.width);
  for (const char c : encode_rle_counts(mask.counts)) {
    if (c == '\\') {  // the only one of its 64 characters that JSON escapes
      text += c;
    }
    text += c;
  }
  text += "\"}";
}

void append_entry(std::string& text, const EvalDetection& detection) {
  text += fmt::format("{{\"image_id\":{},\"category_id\":{},\"bbox\":[", detection.image_id,
                      detection.category_id);
  for (const double value : {detection.x, detection.y, detection.width, detection.height}) {
    append_number(text, value, detection);
    text += ',';
  }
  text.back() = ']';
  text += ",\"score\":";
  append_number(text, detection.score, detection);
}

/// The first few of `ids`, in words.
std::string listed(const std::set<std::int64_t>& ids) {
  const std::vector<std::int64_t> first(
      ids.begin(), std::next(ids.begin(), std::min<std::ptrdiff_t>(5, std::ssize(ids))));
  return fmt::format("{}{}", fmt::join(first, ", "), ids.size() > first.size() ? ", ..." : "");
}

}  // namespace

void write_results_text(std::span<const EvalDetection> detections,
                        const RleList& masks,
                        const std::function<void(std::string_view piece)>& write) {
  DETFORGE_CHECK(masks.empty() || masks.size() == detections.size(),
                 fmt::format("{} masks for {} detections", masks.size(), detections.size()),
                 "give one mask per detection or none");
  constexpr std::size_t kPiece = 1 << 20;
  std::string text = "[";
  for (std::size_t i = 0; i < detections.size(); ++i) {
    text += i > 0 ? ",\n" : "";
    append_entry(text, detections[i]);
    if (!masks.empty()) {
      append_mask(text, masks[i]);
    }
    text += '}';
    if (text.size() >= kPiece) {
      write(text);
      text.clear();
    }
  }
  write(text + "]\n");
}

void write_results_json(const std::filesystem::path& path,
                        std::span<const EvalDetection> detections,
                        const RleList& masks) {
  files::write_atomic(path, [&](const std::filesystem::path& temporary) {
    std::ofstream file(temporary, std::ios::binary);
    write_results_text(detections, masks, [&](std::string_view piece) {
      file.write(piece.data(), static_cast<std::streamsize>(piece.size()));
    });
    file.close();
    DETFORGE_CHECK(file.good(), "cannot write the results file", "is the disk full?");
  });
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
