#pragma once

#include <memory>
#include <string>

#include "detforge/data/coco_store.h"

namespace detforge {

/// Reads a Pascal VOC dataset, checked and reported as COCO files are. `source` is one of
///   a root      a folder with Annotations/, JPEGImages/ and, if it has image sets,
///               ImageSets/Main/SPLIT.txt: options.split, or `ROOT:NAME`
///   a set       ROOT/ImageSets/Main/NAME.txt; lines "ID" or, of one class, "ID 1", "ID -1"
///   a folder    of XML files with the images beside them
/// Images are looked for by ID in options.image_root and the source's folder of images, then by the
/// <filename> in the XML. An ID without XML is an image without objects.
///
/// Images get ids 1..N in the order of the set (folders: sorted by name). Classes are the names in
/// options.class_names, then all others that occur, sorted; they get the category ids 1..K. VOC's
/// boxes are pixels from 1, both ends included: [xmin, xmax] becomes x1 = xmin - 1, x2 = xmax
/// (VocOptions::one_based). Sizes are those of the images. Difficult objects become crowds
/// (VocOptions::ignore_difficult): never trained on, and in evaluation detections on them are no
/// mistakes, as in VOC's own evaluation. Throws Error as load_coco() does, and if no image has an
/// XML file.
std::shared_ptr<const CocoStore> load_voc(const std::string& source,
                                          const CocoLoadOptions& options,
                                          CheckReport& report);

}  // namespace detforge
