#pragma once

namespace detforge {

/// A box as two corners in continuous pixels (docs/conventions.md): width = x2 - x1, no +1.
struct Box {
  double x1 = 0, y1 = 0, x2 = 0, y2 = 0;
  double width() const { return x2 - x1; }
  double height() const { return y2 - y1; }
  double area() const { return width() * height(); }
  bool operator==(const Box&) const = default;
};

}  // namespace detforge
