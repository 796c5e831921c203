#pragma once

#include "detforge/structures/image.h"

namespace detforge {

/// Mirrors in place: left becomes right.
void flip_horizontal_(Image& image);

/// Mirrors in place: top becomes bottom.
void flip_vertical_(Image& image);

}  // namespace detforge
