#include "detforge/data/voc_xml.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <pugixml.hpp>

#include <fmt/format.h>
#include <simdjson.h>

#include "detforge/core/error.h"
#include "detforge/data/text_file.h"

namespace detforge {
namespace {

std::string text_of(const pugi::xml_node& node, const char* child) {
  return std::string(trimmed(node.child(child).text().get()));
}

/// Encodings that pugixml does not know are read as UTF-8, which is right for ASCII letters only.
void check_encoding(std::string_view bytes, const pugi::xml_parse_result& result) {
  if (result.encoding != pugi::encoding_utf8 ||
      simdjson::validate_utf8(bytes.data(), bytes.size())) {
    return;
  }
  const std::size_t begin = bytes.find("encoding=");
  std::string declared = "none is declared";
  if (begin != std::string_view::npos && begin < 200) {
    declared = excerpt(bytes.substr(begin, bytes.find_first_of("?>", begin) - begin));
  }
  throw Error(fmt::format("the file has letters of an encoding that cannot be read ({})", declared),
              "convert it to UTF-8, for example: iconv -f GBK -t UTF-8 OLD > NEW")
      .at(__FILE__, __LINE__);
}

ImageSize size_of(const pugi::xml_node& size) {
  constexpr double kMost = INT32_MAX;
  const auto side = [&](const char* name) {
    const double value = parse_number(text_of(size, name)).value_or(0);
    return value > 0 && value <= kMost ? static_cast<std::int64_t>(std::floor(value)) : 0;
  };
  const ImageSize out{side("height"), side("width")};
  return out.height > 0 && out.width > 0 ? out : ImageSize{};
}

void read_corners(const pugi::xml_node& box, VocObject& object) {
  constexpr std::array<const char*, 4> kNames = {"xmin", "ymin", "xmax", "ymax"};
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (!box.child(kNames[i])) {
      object.problem = fmt::format("bndbox has no {}", kNames[i]);
      continue;
    }
    const std::string text = text_of(box, kNames[i]);
    if (const std::optional<double> value = parse_number(text)) {
      object.corners[i] = *value;
      ++object.numbers;
    } else {
      object.problem = fmt::format("{} is \"{}\"", kNames[i], excerpt(text));
    }
  }
}

VocObject read_object(const pugi::xml_node& node) {
  VocObject object{.name = text_of(node, "name")};
  const std::string difficult = text_of(node, "difficult");
  object.is_difficult = difficult == "1" || lower_case(difficult) == "true";
  if (const pugi::xml_node box = node.child("bndbox")) {
    read_corners(box, object);
  } else {
    object.problem = "the object has no bndbox";
  }
  return object;
}

/// The last part of a path of Windows or Unix.
std::string last_part(const std::string& path) {
  const std::size_t slash = path.find_last_of("/\\");
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

}  // namespace

VocAnnotation parse_voc_xml(std::string_view bytes) {
  pugi::xml_document document;
  const pugi::xml_parse_result result = document.load_buffer(bytes.data(), bytes.size());
  if (!result) {
    const auto offset =
        std::clamp<std::ptrdiff_t>(result.offset, 0, static_cast<std::ptrdiff_t>(bytes.size()));
    const auto line = 1 + std::count(bytes.begin(), bytes.begin() + offset, '\n');
    throw Error(fmt::format("broken XML at line {}: {}", line, result.description()),
                "was the file cut? Write it anew, or remove it")
        .at(__FILE__, __LINE__);
  }
  check_encoding(bytes, result);
  const pugi::xml_node root = document.child("annotation");
  DETFORGE_CHECK(root, "the file has no <annotation>", "give Pascal VOC annotations");
  VocAnnotation out;
  out.file_name = last_part(text_of(root, "filename"));
  if (out.file_name.empty()) {
    out.file_name = last_part(text_of(root, "path"));
  }
  out.size = size_of(root.child("size"));
  for (const pugi::xml_node& node : root.children("object")) {
    out.objects.push_back(read_object(node));
  }
  return out;
}

}  // namespace detforge
