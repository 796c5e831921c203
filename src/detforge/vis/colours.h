#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "detforge/structures/box.h"

namespace detforge {

using Colour = std::array<std::uint8_t, 3>;  ///< b g r

/// A colour for each class: neighbouring labels differ clearly, and the same label always looks the
/// same.
Colour class_colour(std::int64_t label);

/// A colour for each object of a picture, so that objects of one class which touch can be told
/// apart: shades around the class's colour, chosen to differ most from those of overlapping and
/// neighbouring objects of the class.
///   boxes [N], labels [N]; class_count: the classes share the colour circle; 1 gives all of it to
///   the shades, 0 means that their number is not known
/// A function of its arguments alone. The first object of a class that has no neighbour gets
/// class_colour(). O(N^2).
std::vector<Colour> object_colours(std::span<const Box> boxes,
                                   std::span<const std::int64_t> labels,
                                   std::int64_t class_count);

}  // namespace detforge
