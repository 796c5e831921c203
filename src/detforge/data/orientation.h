#pragma once

#include "detforge/structures/image.h"

namespace detforge {

/// Whether the orientation exchanges width and height.
inline bool swaps_sides(int orientation) {
  return orientation >= 5;
}

/// The size that an image has after turn_upright().
inline ImageSize turned_size(ImageSize stored, int orientation) {
  return swaps_sides(orientation) ? ImageSize{stored.width, stored.height} : stored;
}

/// Turns and mirrors an image so that it stands upright. `orientation` is EXIF's: 1 as it is, 2
/// mirrored, 3 upside down, 4 flipped, 5 transposed, 6 needs a quarter turn clockwise, 7 transposed
/// over the other diagonal, 8 needs a quarter turn counter-clockwise.
Image turn_upright(Image image, int orientation);

}  // namespace detforge
