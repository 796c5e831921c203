#include "detforge/data/yolo_reader.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "detforge/core/error.h"
#include "detforge/core/files.h"
#include "detforge/data/image_io.h"
#include "detforge/data/label_files.h"
#include "detforge/data/parallel.h"
#include "detforge/data/tables_builder.h"
#include "detforge/data/yolo_labels.h"
#include "detforge/data/yolo_source.h"

namespace detforge {
namespace {

namespace fs = std::filesystem;

constexpr double kSlack = 1e-3;  ///< of 0..1, for converters that round

bool is_fraction(double value) {
  return std::isnan(value) || (value >= -kSlack && value <= 1 + kSlack);
}

/// Rounded to 1e-6 pixels, so that whole pixels come back whole from a file with enough digits.
double micro_pixels(double pixels) {
  return std::round(pixels * 1e6) / 1e6;
}

/// What one image's files say.
struct Read {
  ImageProbe probe;
  fs::path label_file;  ///< empty if there is none
  std::string label_problem;
  std::vector<YoloRow> rows;
};

Read read_one(const YoloImage& image, const ImageReadOptions& options) {
  Read out;
  if (!image.found) {
    out.probe.problem = "there is no such file";
    return out;
  }
  try {
    out.probe.info = probe_image(image.path.string(), options);
  } catch (const Error& error) {
    out.probe.problem = error.message();
  }
  std::error_code ignored;
  const auto label = std::find_if(image.label_candidates.begin(), image.label_candidates.end(),
                                  [&](const fs::path& path) { return fs::exists(path, ignored); });
  if (label == image.label_candidates.end()) {
    return out;
  }
  out.label_file = *label;
  try {
    out.rows = parse_yolo_labels(files::read(*label));
  } catch (const Error& error) {
    out.label_problem = error.message();
  }
  return out;
}

/// What all rows together look like.
struct RowStatistics {
  std::int64_t rows = 0, pixel_rows = 0;
  double least_label = 0, greatest_label = -1;
  std::string first_pixel_row;

  void look_at(const YoloRow& row, const fs::path& file) {
    if (row.fault != YoloRow::Fault::kNone) {
      return;
    }
    least_label = rows == 0 ? row.label : std::min(least_label, row.label);
    greatest_label = rows == 0 ? row.label : std::max(greatest_label, row.label);
    ++rows;
    // Above 2 it is no box that leaves the image.
    const auto is_pixel = [](double value) { return value > 2; };
    const auto& box = row.box_cxcywh;
    if (std::any_of(box.begin(), box.end(), is_pixel) ||
        std::any_of(row.polygon.begin(), row.polygon.end(), is_pixel)) {
      if (pixel_rows++ == 0) {
        first_pixel_row = fmt::format("{}, line {}", file.string(), row.line);
      }
    }
  }
};

/// Whether a row with these numbers was seen before.
bool is_copy(const YoloRow& row, std::set<std::vector<double>>& seen) {
  std::vector<double> numbers = row.polygon;
  if (numbers.empty()) {
    numbers.assign(row.box_cxcywh.begin(), row.box_cxcywh.end());
  }
  numbers.push_back(row.label);
  const bool ordered = std::none_of(numbers.begin(), numbers.end(),
                                    [](double number) { return std::isnan(number); });
  return ordered && !seen.insert(std::move(numbers)).second;
}

class YoloReader {
 public:
  YoloReader(const YoloSource& source, const CocoLoadOptions& options, CheckReport& report)
      : source_(source), report_(report), builder_(options, report, "line") {
    read_files({.apply_orientation = options.apply_orientation});
  }
  std::shared_ptr<const CocoStore> run();

 private:
  void read_files(const ImageReadOptions& options);
  void check_rows_together();
  bool image_is_good(const YoloImage& image, const Read& read);
  void add_rows(const Read& read);
  bool row_is_good(const YoloRow& row, double label);
  bool keep_copy(const YoloRow& row);
  bool report_row(CheckKind kind, const YoloRow& row, std::string detail);
  LabelObject object_of(const YoloRow& row, std::int64_t label, ImageSize size) const;
  std::int64_t classes() const { return static_cast<std::int64_t>(source_.class_names.size()); }

  const YoloSource& source_;
  CheckReport& report_;
  TablesBuilder builder_;
  std::vector<Read> reads_;
  std::set<fs::path> seen_;
  bool one_based_ = false;
};

void YoloReader::read_files(const ImageReadOptions& options) {
  reads_.resize(source_.images.size());
  for_each_parallel(reads_.size(),
                    [&](std::size_t i) { reads_[i] = read_one(source_.images[i], options); });
}

std::shared_ptr<const CocoStore> YoloReader::run() {
  for (const std::string& name : source_.class_names) {
    builder_.add_category(name);
  }
  check_rows_together();
  LabelFolders folders;
  for (std::size_t i = 0; i < reads_.size(); ++i) {
    const YoloImage& image = source_.images[i];
    folders.add(image.path, image.label_candidates);
    if (!image_is_good(image, reads_[i])) {
      continue;
    }
    builder_.add_image(
        image.path, reads_[i].probe.info.size,
        reads_[i].label_file.empty() ? image.label_candidates.front() : reads_[i].label_file);
    add_rows(reads_[i]);
  }
  folders.report_lonely_labels(".txt", report_, [](const fs::path& path) {
    const auto rows = parse_yolo_labels(files::read(path));
    return !rows.empty() && rows.front().fault == YoloRow::Fault::kNone;
  });
  return builder_.finish();
}

/// Mistakes of a whole dataset, which row by row would be many small ones.
void YoloReader::check_rows_together() {
  RowStatistics statistics;
  bool has_labels = false;
  for (const Read& read : reads_) {
    has_labels |= !read.label_file.empty();
    for (const YoloRow& row : read.rows) {
      statistics.look_at(row, read.label_file);
    }
  }
  DETFORGE_CHECK(
      has_labels,
      fmt::format("none of the {} images has a label file; looked for {}", reads_.size(),
                  fmt::join(paths_text(source_.images.front().label_candidates), ", ")),
      "put the label files beside the images, or into a folder labels in place of images");
  // Who has said that classes are numbered from 1 means every image set, also one without class K.
  const bool said = report_.policy().action(CheckKind::kClassesLookOneBased) == CheckAction::kFix;
  const bool looks =
      statistics.least_label == 1 && statistics.greatest_label == static_cast<double>(classes());
  if (statistics.rows > 0 && statistics.least_label >= 1 && (looks || said)) {
    one_based_ = report_.add(CheckKind::kClassesLookOneBased, [&] {
      return CheckExample{
          .detail = fmt::format("the class numbers of {} rows go from {:.0f} to {:.0f}, none is 0",
                                statistics.rows, statistics.least_label, statistics.greatest_label),
          .place = "all label files"};
    }) == CheckAction::kFix;
  }
  constexpr std::int64_t kEnough = 3;
  if (statistics.pixel_rows >= kEnough && 2 * statistics.pixel_rows > statistics.rows) {
    report_.add(CheckKind::kBoxesLookLikePixels, [&] {
      return CheckExample{.detail = fmt::format("{} of {} rows have values above 2: pixels?",
                                                statistics.pixel_rows, statistics.rows),
                          .place = statistics.first_pixel_row};
    });
  }
}

/// Reports what is wrong with the image or its label file; false if it is left out.
bool YoloReader::image_is_good(const YoloImage& image, const Read& read) {
  const auto add = [&](CheckKind kind, std::string detail) {
    return report_.add(kind, [&] {
      return CheckExample{.index = builder_.next_image_id() - 1,
                          .detail = std::move(detail),
                          .place = image.written};
    }) == CheckAction::kFix;
  };
  if (!read.probe.problem.empty()) {
    return add(CheckKind::kImageUnreadable, read.probe.problem);
  }
  if (!image.as_written && !add(CheckKind::kPathRepaired, "found as " + image.path.string())) {
    return false;
  }
  if (!seen_.insert(image.path).second && !add(CheckKind::kImageListedTwice, "")) {
    return false;
  }
  if (read.label_file.empty()) {
    return add(CheckKind::kLabelFileMissing,
               "looked for " + image.label_candidates.front().string());
  }
  return read.label_problem.empty() ||
         add(CheckKind::kLabelFileUnreadable, read.label_file.string() + ": " + read.label_problem);
}

void YoloReader::add_rows(const Read& read) {
  std::set<std::vector<double>> seen;
  for (const YoloRow& row : read.rows) {
    const double label = row.label - (one_based_ ? 1 : 0);
    if (!row_is_good(row, label) || (is_copy(row, seen) && !keep_copy(row))) {
      builder_.count_left_out();
      continue;
    }
    builder_.add_object(object_of(row, static_cast<std::int64_t>(label), read.probe.info.size));
  }
}

bool YoloReader::report_row(CheckKind kind, const YoloRow& row, std::string detail) {
  return report_.add(kind, [&] {
    return CheckExample{.index = -1,
                        .image_id = builder_.next_image_id() - 1,
                        .detail = std::move(detail),
                        .place = builder_.place(row.line)};
  }) == CheckAction::kFix;
}

bool YoloReader::row_is_good(const YoloRow& row, double label) {
  if (row.fault != YoloRow::Fault::kNone) {
    return report_row(row.fault == YoloRow::Fault::kColumns ? CheckKind::kLabelColumns
                                                            : CheckKind::kLabelMalformed,
                      row, row.detail);
  }
  if (label < 0 || label >= static_cast<double>(classes())) {
    return report_row(CheckKind::kClassOutOfRange, row,
                      fmt::format("class {}, but there are {} classes: 0 to {}", row.label,
                                  classes(), classes() - 1));
  }
  const auto& box = row.box_cxcywh;
  const bool is_box = row.polygon.empty();
  // A negative width or height is another mistake, which check_coco() names.
  const bool fits = is_box ? is_fraction(box[0]) && is_fraction(box[1]) && !(box[2] > 1 + kSlack) &&
                                 !(box[3] > 1 + kSlack)
                           : std::all_of(row.polygon.begin(), row.polygon.end(), is_fraction);
  if (!fits) {
    return report_row(CheckKind::kBoxNotNormalised, row,
                      is_box ? fmt::format("box {}", fmt::join(box, " "))
                             : fmt::format("a polygon of {} points", row.polygon.size() / 2));
  }
  return true;
}

bool YoloReader::keep_copy(const YoloRow& row) {
  return report_row(CheckKind::kLabelDuplicate, row,
                    fmt::format("class {} again, with the same numbers", row.label));
}

LabelObject YoloReader::object_of(const YoloRow& row, std::int64_t label, ImageSize size) const {
  const auto width = static_cast<double>(size.width), height = static_cast<double>(size.height);
  LabelObject object{.category_id = label + 1, .polygon = row.polygon, .number = row.line};
  for (std::size_t i = 0; i < object.polygon.size(); ++i) {
    object.polygon[i] = micro_pixels(object.polygon[i] * (i % 2 == 0 ? width : height));
  }
  const auto [cx, cy, w, h] = row.box_cxcywh;
  object.box_xywh = {micro_pixels((cx - w / 2) * width), micro_pixels((cy - h / 2) * height),
                     micro_pixels(w * width), micro_pixels(h * height)};
  return object;
}

}  // namespace

std::shared_ptr<const CocoStore> load_yolo(const std::string& source,
                                           const CocoLoadOptions& options,
                                           CheckReport& report) {
  report.set_file(source);
  const YoloSource opened = open_yolo_source(source, options);
  return YoloReader(opened, options, report).run();
}

}  // namespace detforge
