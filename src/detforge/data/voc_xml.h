#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "detforge/structures/image.h"

namespace detforge {

/// One <object> of a Pascal VOC annotation.
struct VocObject {
  std::string name = {};  ///< without white space around it; may be empty
  bool is_difficult = false;
  std::array<double, 4> corners{};  ///< xmin ymin xmax ymax as in the file
  std::uint8_t numbers = 0;         ///< how many of them are there; 0 without <bndbox>
  std::string problem = {};         ///< what of the corners is no number, in words; else empty
};

/// A Pascal VOC annotation file.
struct VocAnnotation {
  std::string file_name = {};  ///< <filename>, or the last part of <path>; may be empty
  ImageSize size{};            ///< 0 x 0 if it is missing or no size
  std::vector<VocObject> objects = {};
};

/// Parses the XML text: any encoding that its byte order mark or declaration names among UTF-8,
/// UTF-16, UTF-32 and Latin-1. Boxes of parts (<part> of an <object>) are not objects. Throws Error
/// (without a place) for broken XML (line), another encoding with letters outside ASCII, and if
/// there is no <annotation>.
VocAnnotation parse_voc_xml(std::string_view bytes);

}  // namespace detforge
