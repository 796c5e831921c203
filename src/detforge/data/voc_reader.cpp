#include "detforge/data/voc_reader.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "detforge/core/error.h"
#include "detforge/core/files.h"
#include "detforge/data/class_names.h"
#include "detforge/data/image_files.h"
#include "detforge/data/image_io.h"
#include "detforge/data/label_files.h"
#include "detforge/data/parallel.h"
#include "detforge/data/tables_builder.h"
#include "detforge/data/voc_source.h"
#include "detforge/data/voc_xml.h"

namespace detforge {
namespace {

namespace fs = std::filesystem;

/// One entry's XML file.
struct Read {
  bool has_xml = false;
  std::string problem;
  VocAnnotation annotation;
};

Read read_one(const fs::path& xml) {
  Read out;
  std::error_code ignored;
  out.has_xml = fs::exists(xml, ignored);
  try {
    if (out.has_xml) {
      out.annotation = parse_voc_xml(files::read(xml));
    }
  } catch (const Error& error) {
    out.problem = error.message();
  }
  return out;
}

std::string size_text(ImageSize size) {
  return fmt::format("{} x {}", size.width, size.height);
}

class VocReader {
 public:
  VocReader(const VocSource& source, const CocoLoadOptions& options, CheckReport& report)
      : source_(source),
        options_(options),
        report_(report),
        builder_(options, report, "object"),
        finder_(image_folders()) {}
  std::shared_ptr<const CocoStore> run();

 private:
  std::vector<fs::path> image_folders() const;
  void read_files();
  void find_images();
  void choose_classes();
  bool image_is_good(std::size_t i);
  bool size_is_good(std::size_t i);
  bool add_problem(CheckKind kind, std::size_t i, std::string detail);
  void add_objects(const VocAnnotation& annotation);
  void add_object(const VocObject& object, std::int64_t number);
  bool report_object(CheckKind kind, std::int64_t number, std::string detail);

  const VocSource& source_;
  const CocoLoadOptions& options_;
  CheckReport& report_;
  TablesBuilder builder_;
  FileFinder finder_;
  std::vector<Read> reads_;
  std::vector<std::string> images_;  ///< paths; empty if there is none
  std::vector<bool> as_written_;
  std::vector<ImageProbe> probes_;
  std::vector<std::string> classes_;
  std::set<std::string> seen_;
};

std::vector<fs::path> VocReader::image_folders() const {
  std::vector<fs::path> folders;
  if (!options_.image_root.empty()) {
    folders.emplace_back(options_.image_root);
  }
  folders.push_back(source_.image_folder);
  return folders;
}

std::shared_ptr<const CocoStore> VocReader::run() {
  read_files();
  find_images();
  choose_classes();
  for (const std::string& name : classes_) {
    builder_.add_category(name);
  }
  LabelFolders folders;
  for (std::size_t i = 0; i < reads_.size(); ++i) {
    for (const fs::path& folder : image_folders()) {
      folders.add(folder / source_.entries[i].id, {source_.entries[i].xml});
    }
    if (image_is_good(i)) {
      builder_.add_image(images_[i], probes_[i].info.size, source_.entries[i].xml);
      add_objects(reads_[i].annotation);
    }
  }
  folders.report_lonely_labels(".xml", report_, [&](const fs::path& path) {
    return !finder_.find(read_one(path).annotation.file_name);
  });
  return builder_.finish();
}

void VocReader::read_files() {
  reads_.resize(source_.entries.size());
  for_each_parallel(reads_.size(),
                    [&](std::size_t i) { reads_[i] = read_one(source_.entries[i].xml); });
  DETFORGE_CHECK(
      std::any_of(reads_.begin(), reads_.end(), [](const Read& read) { return read.has_xml; }),
      fmt::format("none of the {} images has an XML file; looked for {}", reads_.size(),
                  source_.entries.front().xml.string()),
      "put the annotations into the folder Annotations");
}

void VocReader::find_images() {
  for (std::size_t i = 0; i < reads_.size(); ++i) {
    const fs::path id = source_.entries[i].id;
    std::optional<fs::path> path;
    for (const fs::path& folder : image_folders()) {
      path = path ? path : finder_.find_image(folder / id.parent_path(), id.filename().string());
    }
    bool as_written = true;
    const std::string& name = reads_[i].annotation.file_name;
    if (!path && !name.empty()) {
      if (const auto found = finder_.find(name)) {
        path = found->path;
        as_written = found->as_written;
      }
    }
    images_.push_back(path ? path->string() : "");
    as_written_.push_back(as_written);
  }
  probes_ = probe_images(images_, {.apply_orientation = options_.apply_orientation});
}

void VocReader::choose_classes() {
  std::set<std::string> others;
  for (const Read& read : reads_) {
    for (const VocObject& object : read.annotation.objects) {
      if (!object.name.empty()) {
        others.insert(object.name);
      }
    }
  }
  const std::vector<std::string> all(others.begin(), others.end());
  classes_ = options_.class_names;
  for (std::size_t i = 0; i < classes_.size(); ++i) {
    if (others.erase(classes_[i]) == 0) {
      report_.add(CheckKind::kClassNotInFile, [&] {
        return CheckExample{.index = static_cast<std::int64_t>(i),
                            .detail = with_nearest(classes_[i], all)};
      });
    }
  }
  classes_.insert(classes_.end(), others.begin(), others.end());
}

bool VocReader::add_problem(CheckKind kind, std::size_t i, std::string detail) {
  return report_.add(kind, [&] {
    return CheckExample{.index = static_cast<std::int64_t>(i),
                        .detail = std::move(detail),
                        .place = source_.entries[i].xml.string()};
  }) == CheckAction::kFix;
}

/// Reports what is wrong with the image or its XML; false if it is left out.
bool VocReader::image_is_good(std::size_t i) {
  const Read& read = reads_[i];
  if (!read.problem.empty()) {
    return add_problem(CheckKind::kLabelFileUnreadable, i, read.problem);
  }
  if (images_[i].empty()) {
    return add_problem(CheckKind::kImageUnreadable, i,
                       fmt::format("there is no image {} in {}", source_.entries[i].id,
                                   fmt::join(paths_text(image_folders()), " or ")));
  }
  if (!probes_[i].problem.empty()) {
    return add_problem(CheckKind::kImageUnreadable, i, images_[i] + ": " + probes_[i].problem);
  }
  if (!as_written_[i] && !add_problem(CheckKind::kPathRepaired, i, "found as " + images_[i])) {
    return false;
  }
  if (!seen_.insert(images_[i]).second &&
      !add_problem(CheckKind::kImageListedTwice, i, images_[i])) {
    return false;
  }
  return read.has_xml ? size_is_good(i)
                      : add_problem(CheckKind::kLabelFileMissing, i, "image " + images_[i]);
}

bool VocReader::size_is_good(std::size_t i) {
  ImageSize& size = probes_[i].info.size;
  const ImageSize written = reads_[i].annotation.size;
  if (written == size) {
    return true;
  }
  if (written == ImageSize{}) {
    add_problem(CheckKind::kMissingImageSize, i, "image " + images_[i]);
    return true;
  }
  const bool swapped = written.width == size.height && written.height == size.width;
  if (swapped && add_problem(CheckKind::kImageSizeSwapped, i,
                             fmt::format("the XML says {} (width x height), {} is {}",
                                         size_text(written), images_[i], size_text(size)))) {
    size = written;  // the picture will be read unturned
    return true;
  }
  return swapped || add_problem(CheckKind::kLabelSizeDiffers, i,
                                fmt::format("the XML says {} (width x height), {} is {}",
                                            size_text(written), images_[i], size_text(size)));
}

bool VocReader::report_object(CheckKind kind, std::int64_t number, std::string detail) {
  return report_.add(kind, [&] {
    return CheckExample{.index = -1,
                        .image_id = builder_.next_image_id() - 1,
                        .detail = std::move(detail),
                        .place = builder_.place(number)};
  }) == CheckAction::kFix;
}

void VocReader::add_objects(const VocAnnotation& annotation) {
  std::set<std::tuple<std::string, bool, std::string>> seen;
  std::int64_t number = 0;
  for (const VocObject& object : annotation.objects) {
    ++number;
    const std::string corners = fmt::format("{}", fmt::join(object.corners, " "));
    const bool is_copy =
        object.numbers == 4 && !seen.emplace(object.name, object.is_difficult, corners).second;
    if (is_copy && !report_object(CheckKind::kLabelDuplicate, number,
                                  fmt::format("{} again, with corners {}", object.name, corners))) {
      builder_.count_left_out();
    } else {
      add_object(object, number);
    }
  }
}

void VocReader::add_object(const VocObject& object, std::int64_t number) {
  const auto at = std::find(classes_.begin(), classes_.end(), object.name);
  if (at == classes_.end()) {
    report_object(CheckKind::kLabelMalformed, number, "the object has no name");
    return builder_.count_left_out();
  }
  if (object.numbers < 4) {
    report_object(object.numbers == 0 ? CheckKind::kBoxMissing : CheckKind::kBoxMalformed, number,
                  object.problem);
    return builder_.count_left_out();
  }
  const auto [x1, y1, x2, y2] = object.corners;
  if (options_.voc.one_based && (x1 == 0 || y1 == 0)) {
    report_object(CheckKind::kBoxesLookZeroBased, number,
                  fmt::format("corners {}", fmt::join(object.corners, " ")));
  }
  const double first = options_.voc.one_based ? 1 : 0;
  builder_.add_object({.category_id = at - classes_.begin() + 1,
                       .box_xywh = {x1 - first, y1 - first, x2 - x1 + first, y2 - y1 + first},
                       .is_crowd = object.is_difficult && options_.voc.ignore_difficult,
                       .number = number});
}

}  // namespace

std::shared_ptr<const CocoStore> load_voc(const std::string& source,
                                          const CocoLoadOptions& options,
                                          CheckReport& report) {
  report.set_file(source);
  const VocSource opened = open_voc_source(source, options);
  return VocReader(opened, options, report).run();
}

}  // namespace detforge
