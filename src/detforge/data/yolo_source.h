#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "detforge/data/coco_store.h"

namespace detforge {

/// An image of a YOLO dataset and where its labels may be.
struct YoloImage {
  std::string written = {};    ///< as the list says
  std::filesystem::path path;  ///< the file that was found, or what was looked for first
  bool found = false;
  bool as_written = true;  ///< false: only after FileFinder's repairs
  std::vector<std::filesystem::path> label_candidates = {};  ///< best first
};

/// A YOLO source, opened: its images in their order, and its classes.
struct YoloSource {
  std::vector<YoloImage> images;
  std::vector<std::string> class_names;
};

/// Opens what load_yolo() calls a source. Throws Error naming the file for lists, data files and
/// class names that cannot be read, for a split that is not there, and if there is no image.
YoloSource open_yolo_source(const std::string& source, const CocoLoadOptions& options);

/// Where the labels of an image are looked for: the last folder "images" of the path replaced by
/// "labels" (as Ultralytics does; Darknet also replaces "JPEGImages"), then beside the image.
std::vector<std::filesystem::path> label_candidates(const std::filesystem::path& image);

}  // namespace detforge
