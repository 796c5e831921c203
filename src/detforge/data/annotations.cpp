#include "detforge/data/annotations.h"

#include <fmt/format.h>

#include "detforge/core/error.h"
#include "detforge/data/image_files.h"
#include "detforge/data/text_file.h"
#include "detforge/data/voc_reader.h"
#include "detforge/data/yolo_reader.h"

namespace detforge {

std::string_view format_name(AnnotationFormat format) {
  switch (format) {
    case AnnotationFormat::kYolo:
      return "yolo";
    case AnnotationFormat::kVoc:
      return "voc";
    default:
      return "coco";
  }
}

AnnotationFormat parse_format(std::string_view name) {
  for (const auto format :
       {AnnotationFormat::kCoco, AnnotationFormat::kYolo, AnnotationFormat::kVoc}) {
    if (name == format_name(format)) {
      return format;
    }
  }
  throw Error(fmt::format("there is no annotation format {}", name), "choose from: coco, yolo, voc",
              Error::Kind::kUsage)
      .at(__FILE__, __LINE__);
}

std::string split_name(AnnotationFormat format,
                       const std::string& source,
                       const std::string& unnamed) {
  constexpr std::string_view kPrefix = "instances_";
  const SplitSource parsed = format == AnnotationFormat::kCoco
                                 ? SplitSource{.path = source, .split = unnamed}
                                 : parse_source(source, unnamed);
  const std::string extension = lower_case(parsed.path.extension().string());
  if (extension != ".txt" && extension != ".json") {
    return parsed.split;
  }
  const std::string stem = parsed.path.stem().string();
  return stem.starts_with(kPrefix) ? stem.substr(kPrefix.size()) : stem;
}

std::shared_ptr<const CocoStore> load_annotations(AnnotationFormat format,
                                                  const std::string& source,
                                                  const CocoLoadOptions& options,
                                                  CheckReport& report) {
  switch (format) {
    case AnnotationFormat::kYolo:
      return load_yolo(source, options, report);
    case AnnotationFormat::kVoc:
      return load_voc(source, options, report);
    default:
      return load_coco(source, options, report);
  }
}

}  // namespace detforge
