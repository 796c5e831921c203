#include "detforge/data/orientation.h"

#include <algorithm>
#include <utility>

namespace detforge {

Image turn_upright(Image image, int orientation) {
  if (orientation == 1) {
    return image;
  }
  const auto [height, width] = turned_size(image.size(), orientation);
  Image turned{height, width, std::vector<std::uint8_t>(image.bgr.size())};
  // Where the row and the column of the source run backwards, by the meaning of each orientation.
  const bool from_bottom =
      orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  const bool from_right =
      orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  for (std::int64_t y = 0; y < height; ++y) {
    std::uint8_t* out = turned.row(y);
    for (std::int64_t x = 0; x < width; ++x, out += 3) {
      const std::int64_t row = swaps_sides(orientation) ? x : y;
      const std::int64_t column = swaps_sides(orientation) ? y : x;
      const std::uint8_t* in = image.row(from_bottom ? image.height - 1 - row : row) +
                               3 * (from_right ? image.width - 1 - column : column);
      std::copy_n(in, 3, out);
    }
  }
  return turned;
}

}  // namespace detforge
