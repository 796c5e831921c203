#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "detforge/data/annotations.h"
#include "detforge/data/coco_store.h"

namespace detforge {

struct WriteOptions {
  std::filesystem::path output = {};  ///< folder; for COCO also a file that ends in .json
  std::string split = "train";        ///< name of the image set that is written
  std::vector<std::string> classes =
      {};  ///< which, and in which order; empty: all, COCO with their category ids
  enum class Images {
    kLeave,
    kCopy,
    kLink
  } images = Images::kLeave;   ///< what becomes of the image files; links are symbolic, absolute
  bool masks = false;          ///< YOLO: rows with the polygon instead of the box, for objects that
                               ///< have polygons
  bool integer_boxes = false;  ///< VOC: whole pixels; else decimals where a box needs them
  bool replace = false;        ///< files that are there already
  std::string description = {};  ///< COCO: "info"
};

/// What was written, and what the format could not take.
struct WriteReport {
  std::int64_t images = 0, objects = 0;
  std::int64_t other_classes = 0;  ///< objects of classes that are not in WriteOptions::classes
  std::int64_t crowds = 0;         ///< YOLO: left out, for it cannot say that they are crowds
  std::int64_t masks = 0;          ///< of which only the box was written
  std::filesystem::path annotations = {};  ///< what to give as the source when it is read again
  std::filesystem::path image_folder =
      {};  ///< of the images that belong to it; empty: as they were
};

/// Writes a dataset in the layout that its tools expect; several image sets may share a folder.
///   COCO  OUT/annotations/instances_SPLIT.json, images in OUT/SPLIT/; or the JSON file alone
///   YOLO  OUT/labels/SPLIT/*.txt, images in OUT/images/SPLIT/, OUT/SPLIT.txt (the list), OUT/
///         obj.names and data.yaml (extended if it has the same classes)
///   VOC   OUT/Annotations/*.xml, images in OUT/JPEGImages/, OUT/ImageSets/Main/SPLIT.txt
/// Only usable objects are written. COCO boxes are as they were read; YOLO's and VOC's are clipped
/// to the image, which those formats cannot leave, and read back to within 1e-5 pixels (VOC with
/// integer_boxes: half a pixel). VOC boxes count pixels from 1, crowds are `difficult`, masks are
/// not written; a YOLO polygon of several parts is joined by lines without area.
///
/// Every file appears completely or not at all, the list (COCO: the JSON) last. Throws Error if
/// files are there already, unless `replace`; if two images would have one label file (VOC: also of
/// two image sets); if the size of an image is unknown (YOLO, VOC); and for images that cannot be
/// copied.
WriteReport write_dataset(AnnotationFormat format,
                          const CocoStore& store,
                          const WriteOptions& options);

}  // namespace detforge
