#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "detforge/structures/image.h"

namespace detforge {

/// How pictures are put together.
struct GridOptions {
  std::int64_t columns = 0;  ///< 0: as many as rows, or one more
  std::int64_t gap = 6;      ///< pixels between and around the pictures
};

/// One picture of many, row by row, each in a cell of the largest size. Throws Error if there is
/// none.
Image grid(const std::vector<Image>& images, const GridOptions& options = {});

/// The picture with a line of text above it. Letters outside ASCII become '?'.
Image captioned(const Image& image, const std::string& text);

}  // namespace detforge
