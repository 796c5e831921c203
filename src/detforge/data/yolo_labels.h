#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace detforge {

/// One row of a YOLO label file: an object, or what is wrong with it.
struct YoloRow {
  enum class Fault : std::uint8_t { kNone, kColumns, kMalformed };

  std::int64_t line = 0;               ///< from 1
  double label = 0;                    ///< a whole number if there is no fault, perhaps of no class
  std::array<double, 4> box_cxcywh{};  ///< fractions of the image; unused if there is a polygon
  std::vector<double> polygon = {};    ///< x1 y1 x2 y2 ..., at least 3 points, or empty
  Fault fault = Fault::kNone;
  std::string detail = {};  ///< of a fault, with the offending word or row
};

/// Parses the text of a label file: a row `class cx cy w h`, or a polygon
/// `class x1 y1 x2 y2 x3 y3 ...` (also rotated boxes, as four points), words between spaces or
/// tabs. Empty lines are none. Values are not judged. Throws Error (without a place) for UTF-16 and
/// for what is no text.
std::vector<YoloRow> parse_yolo_labels(std::string_view bytes);

}  // namespace detforge
