// A YOLO label file, image list or file of class names of any bytes.

#include <cmath>

#include "detforge/data/text_file.h"
#include "detforge/data/yolo_labels.h"
#include "fuzz/fuzz.h"

namespace detforge::fuzz {
namespace {

void check(const YoloRow& row) {
  if (row.fault != YoloRow::Fault::kNone) {
    require(!row.detail.empty(), "a fault says what is wrong");
    return;
  }
  require(std::floor(row.label) == row.label, "a good row has a whole class number");
  require(row.polygon.empty() || (row.polygon.size() >= 6 && row.polygon.size() % 2 == 0),
          "a polygon has at least three points");
}

}  // namespace
}  // namespace detforge::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace detforge;
  using namespace detforge::fuzz;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  accepts([&] {
    std::int64_t line = 0;
    for (const YoloRow& row : parse_yolo_labels(bytes)) {
      require(row.line > line, "rows come in the order of their lines");
      line = row.line;
      check(row);
    }
    const auto lines = static_cast<std::int64_t>(lines_of(plain_text(bytes)).size());
    require(line <= lines, "no row is behind the last line");
  });
  return 0;
}
