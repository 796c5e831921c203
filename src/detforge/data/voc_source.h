#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "detforge/data/coco_store.h"

namespace detforge {

/// An entry of a VOC image set: its annotation file and where its image may be.
struct VocEntry {
  std::string id;  ///< as in the image set, or the file's name without .xml
  std::filesystem::path xml;
};

/// A VOC source, opened.
struct VocSource {
  std::vector<VocEntry> entries;
  std::filesystem::path image_folder;  ///< JPEGImages, or the folder of the XML files
};

/// Opens what load_voc() calls a source. Throws Error naming the path if it is none of them, if the
/// image set is not there (naming those that are), and if there is no entry.
VocSource open_voc_source(const std::string& source, const CocoLoadOptions& options);

}  // namespace detforge
