#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/picture_files.h"
#include "detforge/data/annotations.h"

namespace detforge::test {

/// What loading gave.
struct LoadedLabels {
  CheckReport report;
  std::shared_ptr<const CocoStore> store;

  std::int64_t count(CheckKind kind) const { return report.count(kind); }
  /// Boxes of all annotations as x y width height.
  std::vector<std::array<double, 4>> boxes() const {
    std::vector<std::array<double, 4>> out;
    for (const CocoAnnotation& a : store->annotations()) {
      out.push_back(a.box_xywh);
    }
    return out;
  }
  std::vector<std::string> file_names() const {
    std::vector<std::string> out;
    for (const CocoImage& image : store->images()) {
      out.emplace_back(store->file_name(image));
    }
    return out;
  }
  /// Class names of all annotations, in order.
  std::vector<std::string> classes() const {
    std::vector<std::string> out;
    for (const CocoAnnotation& a : store->annotations()) {
      out.push_back(store->categories()[static_cast<std::size_t>(a.category)].name);
    }
    return out;
  }
};

/// A folder to be filled with a YOLO or VOC dataset and then read.
struct LabelFolder {
  TemporaryFolder folder;
  AnnotationFormat format = AnnotationFormat::kYolo;
  CheckPolicy policy = {};
  CocoLoadOptions options = {};

  explicit LabelFolder(AnnotationFormat of) : format(of) {}

  std::string path(const std::string& name) const { return (folder / name).string(); }
  void add(const std::string& name, const std::string& text) {
    files::write_atomic(folder / name, text);
  }
  /// A PNG file of this size.
  void add_image(const std::string& name, int height, int width) {
    add(name, encoded(".png", picture(height, width)));
  }
  LoadedLabels load(const std::string& source) const {
    LoadedLabels out{.report = CheckReport(policy), .store = nullptr};
    out.store = load_annotations(format, path(source), options, out.report);
    return out;
  }
  /// The message of the Error that load() throws; empty if it throws none.
  std::string error(const std::string& source) const {
    return error_of([&] { load(source); });
  }
};

/// A YOLO folder with images/a.png of 100 x 200 (height x width), classes cell and dot, and the
/// labels given.
struct YoloFolder : LabelFolder {
  explicit YoloFolder(const std::string& labels) : LabelFolder(AnnotationFormat::kYolo) {
    add("classes.txt", "cell\ndot\n");
    add_image("images/a.png", 100, 200);
    add("labels/a.txt", labels);
  }
  LoadedLabels load() const { return LabelFolder::load("images"); }
  std::string error() const { return LabelFolder::error("images"); }
};

/// A VOC root with a.png of 100 x 200 (height x width) and the XML between <annotation> tags.
struct VocFolder : LabelFolder {
  explicit VocFolder(const std::string& xml) : LabelFolder(AnnotationFormat::kVoc) {
    add_image("JPEGImages/a.png", 100, 200);
    add_xml("a", xml);
  }
  void add_xml(const std::string& id, const std::string& xml) {
    add("Annotations/" + id + ".xml", "<annotation>" + xml + "</annotation>");
  }
  LoadedLabels load() const { return LabelFolder::load(""); }
  std::string error() const { return LabelFolder::error(""); }
};

inline std::string voc_size(int height, int width) {
  return fmt::format("<size><width>{}</width><height>{}</height><depth>3</depth></size>", width,
                     height);
}

inline std::string voc_object(const std::string& name,
                              const std::array<double, 4>& corners,
                              const std::string& more = "") {
  return fmt::format(
      "<object><name>{}</name><bndbox><xmin>{}</xmin><ymin>{}</ymin><xmax>{}</xmax><ymax>{}</ymax>"
      "</bndbox>{}</object>",
      name, corners[0], corners[1], corners[2], corners[3], more);
}

}  // namespace detforge::test
