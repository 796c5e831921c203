#pragma once

#include <memory>
#include <string>

#include "detforge/data/coco_store.h"

namespace detforge {

/// Reads a dataset of YOLO text labels, checked and reported as COCO files are. `source` is one of
///   a list      one image path a line (Darknet's train.txt), relative to the options' image_root,
///               the list or the working directory
///   a folder    all images in it and below, sorted by path; if it has a data.yaml, that
///   FILE.yaml   Ultralytics' data.yaml: path, train, val, test (folders or lists), names
///   FILE.data   Darknet's obj.data: train, valid (lists), names, classes
/// the last two with `:NAME` for another image set than options.split. The labels of an image are
/// where label_candidates() says, a row per object (parse_yolo_labels()); an image without a label
/// file has no objects. Class names are those of the source, else of classes.txt or obj.names
/// beside list, labels or images, else options.class_names.
///
/// Images get ids 1..N in the order of the source, classes the category ids 1..K (class number +
/// 1), rows the annotation ids 1, 2, ... Image sizes are read from the images (after EXIF turning,
/// as the options say). Boxes are (cx - w/2) * width and so on, rounded to 1e-6 pixels; values up
/// to 0.001 outside 0..1 count as rounding. Throws Error as load_coco() does, and if no image has a
/// label file.
std::shared_ptr<const CocoStore> load_yolo(const std::string& source,
                                           const CocoLoadOptions& options,
                                           CheckReport& report);

}  // namespace detforge
