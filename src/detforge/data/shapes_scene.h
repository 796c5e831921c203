#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "detforge/core/rng.h"
#include "detforge/structures/box.h"
#include "detforge/structures/image.h"

namespace detforge::shapes {

/// Classes in the order of their labels.
constexpr std::array<const char*, 4> kClassNames = {"disc", "box", "triangle", "star"};

using Colour = std::array<double, 3>;  ///< b, g, r, 0..255

/// How a shape's surface is painted.
enum class Pattern { kPlain, kStripes, kChecks, kShaded };

/// One object of a picture.
struct Shape {
  std::int64_t label = 0;       ///< index into kClassNames
  std::vector<double> polygon;  ///< x0 y0 x1 y1 ..., rounded to 0.01 pixel
  Pattern pattern = Pattern::kPlain;
  Colour colour{}, second_colour{};
  double period = 8, direction = 0;  ///< of the pattern: pixels, radians

  Box box() const;
  /// By the shoelace formula.
  double area() const;
};

/// A picture before it is drawn; later shapes lie on earlier ones.
struct Scene {
  ImageSize size;
  Colour ground{};
  std::vector<Shape> shapes;
};

/// Places 1 to `max_objects` shapes such that none is more than half hidden. Needs sides of at
/// least 32 pixels.
Scene make_scene(ImageSize size, std::int64_t max_objects, Rng& rng);

/// Paints ground texture, shadows and shapes with smooth edges.
Image draw_scene(const Scene& scene, Rng& rng);

}  // namespace detforge::shapes
