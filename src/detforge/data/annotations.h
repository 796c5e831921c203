#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "detforge/data/coco_store.h"

namespace detforge {

/// How objects are written down on disk.
enum class AnnotationFormat : std::uint8_t { kCoco, kYolo, kVoc };

/// "coco", "yolo" or "voc".
std::string_view format_name(AnnotationFormat format);
/// The other way round; throws Error (usage) for any other word.
AnnotationFormat parse_format(std::string_view name);

/// The image set that a source stands for: what it names itself, else `unnamed` for folders and
/// data files, else the file's name without its extension and "instances_".
std::string split_name(AnnotationFormat format,
                       const std::string& source,
                       const std::string& unnamed = "train");

/// Reads and checks a dataset of any format: load_coco(), load_yolo() or load_voc(), which say what
/// a source may be.
std::shared_ptr<const CocoStore> load_annotations(AnnotationFormat format,
                                                  const std::string& source,
                                                  const CocoLoadOptions& options,
                                                  CheckReport& report);

}  // namespace detforge
