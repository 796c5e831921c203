#include "detforge/data/flip.h"

#include <algorithm>
#include <cstring>

namespace detforge {

void flip_horizontal_(Image& image) {
  const auto row_bytes = static_cast<std::size_t>(image.width * 3);
  std::vector<std::uint8_t> mirrored(row_bytes);
  for (std::int64_t y = 0; y < image.height; ++y) {
    const std::uint8_t* in = image.row(y);
    std::uint8_t* out = mirrored.data() + row_bytes;
    for (std::int64_t x = 0; x < image.width; ++x, in += 3) {
      out -= 3;
      out[0] = in[0];
      out[1] = in[1];
      out[2] = in[2];
    }
    std::memcpy(image.row(y), mirrored.data(), row_bytes);
  }
}

void flip_vertical_(Image& image) {
  const auto row_bytes = image.width * 3;
  for (std::int64_t y = 0; y < image.height / 2; ++y) {
    std::swap_ranges(image.row(y), image.row(y) + row_bytes, image.row(image.height - 1 - y));
  }
}

}  // namespace detforge
