#include "detforge/vis/canvas.h"

#include <algorithm>
#include <cmath>

namespace detforge::vis {

Style style_for(ImageSize size) {
  const double edge = std::sqrt(static_cast<double>(size.height) * static_cast<double>(size.width));
  return {.text_height = std::max(8.5, edge / 62),
          .line_width = std::max(1, static_cast<int>(std::lround(edge / 300)))};
}

}  // namespace detforge::vis
