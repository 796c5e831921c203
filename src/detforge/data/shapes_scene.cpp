#include "detforge/data/shapes_scene.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "detforge/data/coverage.h"

namespace detforge::shapes {
namespace {

constexpr double kMostHidden = 0.5;
constexpr double kSmallest = 0.16, kLargest = 0.5;  // of the picture's shorter side
constexpr double kPi = std::numbers::pi;

double squared_distance(const Colour& a, const Colour& b) {
  double sum = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    sum += (a[i] - b[i]) * (a[i] - b[i]);
  }
  return sum;
}

/// A colour that can be told from `other`.
Colour draw_colour(const Colour& other, double least_distance, Rng& rng) {
  Colour colour{};
  do {
    for (double& channel : colour) {
      channel = rng.uniform(15, 240);
    }
  } while (squared_distance(colour, other) < least_distance * least_distance);
  return colour;
}

/// Corners on circles around the origin; `radius(i)` in units of the shape's half size.
template <typename Radius>
std::vector<double> corners(int count, double stretch, const Radius& radius) {
  std::vector<double> polygon;
  for (int i = 0; i < count; ++i) {
    const double angle = 2 * kPi * i / count - kPi / 2;
    polygon.push_back(radius(i) * std::cos(angle) * stretch);
    polygon.push_back(radius(i) * std::sin(angle) / stretch);
  }
  return polygon;
}

std::vector<double> outline(std::int64_t label, Rng& rng) {
  const double stretch = rng.uniform(0.85, 1.15);
  switch (label) {
    case 0:
      return corners(48, stretch, [](int) { return 1.0; });
    case 1: {
      const double wide = rng.uniform(0.6, 0.95), high = rng.uniform(0.6, 0.95);
      return {-wide, -high, wide, -high, wide, high, -wide, high};
    }
    case 2:
      return corners(3, stretch, [](int) { return 1.1; });
    default:
      return corners(10, stretch, [](int i) { return i % 2 == 0 ? 1.1 : 0.48; });
  }
}

/// Turns, scales and moves an outline; the corners are rounded as the annotation file has them.
std::vector<double> placed(
    const std::vector<double>& shape, double angle, double half, double x, double y) {
  const double cosine = std::cos(angle) * half, sine = std::sin(angle) * half;
  const auto rounded = [](double value) { return std::round(value * 100) / 100; };
  std::vector<double> polygon;
  for (std::size_t i = 0; i < shape.size(); i += 2) {
    polygon.push_back(rounded(x + shape[i] * cosine - shape[i + 1] * sine));
    polygon.push_back(rounded(y + shape[i] * sine + shape[i + 1] * cosine));
  }
  return polygon;
}

Shape draw_shape(ImageSize size, const Colour& ground, Rng& rng) {
  const auto width = static_cast<double>(size.width), height = static_cast<double>(size.height);
  const double half = std::min(width, height) * rng.uniform(kSmallest, kLargest) / 2;
  Shape shape;
  shape.label = static_cast<std::int64_t>(rng.below(kClassNames.size()));
  const std::vector<double> form = outline(shape.label, rng);
  shape.polygon =
      placed(form, rng.uniform(-0.5, 0.5), half, rng.uniform(0, width), rng.uniform(0, height));
  shape.pattern = static_cast<Pattern>(rng.below(4));
  shape.colour = draw_colour(ground, 110, rng);
  shape.second_colour = draw_colour(ground, 80, rng);
  shape.period = rng.uniform(5, 14);
  shape.direction = rng.uniform(0, kPi);
  return shape;
}

bool is_inside(const Box& box, ImageSize size) {
  return box.x1 >= 0 && box.y1 >= 0 && box.x2 <= static_cast<double>(size.width) &&
         box.y2 <= static_cast<double>(size.height);
}

/// What is still visible of each shape placed so far.
class Visibility {
 public:
  /// Adds the shape on top, unless it would hide too much of one below.
  bool add(const Coverage& shape) {
    std::vector<Layer> layers = layers_;
    for (Layer& layer : layers) {
      double visible = 0;
      for (std::size_t i = 0; i < shape.values.size(); ++i) {
        layer.visible[i] *= 1 - std::min(1.0F, shape.values[i]);
        visible += layer.visible[i];
      }
      if (visible < (1 - kMostHidden) * layer.area) {
        return false;
      }
    }
    layers.push_back({shape.values, shape.area()});
    layers_ = std::move(layers);
    return true;
  }

 private:
  struct Layer {
    std::vector<float> visible;
    double area;
  };
  std::vector<Layer> layers_;
};

}  // namespace

Box Shape::box() const {
  Box box{polygon[0], polygon[1], polygon[0], polygon[1]};
  for (std::size_t i = 2; i < polygon.size(); i += 2) {
    box = {std::min(box.x1, polygon[i]), std::min(box.y1, polygon[i + 1]),
           std::max(box.x2, polygon[i]), std::max(box.y2, polygon[i + 1])};
  }
  return box;
}

double Shape::area() const {
  double twice = 0;
  for (std::size_t i = 0; i < polygon.size(); i += 2) {
    const std::size_t next = (i + 2) % polygon.size();
    twice += polygon[i] * polygon[next + 1] - polygon[next] * polygon[i + 1];
  }
  return std::abs(twice) / 2;
}

Scene make_scene(ImageSize size, std::int64_t max_objects, Rng& rng) {
  constexpr int kTriesPerObject = 30;
  Scene scene{size, {}, {}};
  const double grey = rng.uniform(70, 180);
  for (double& channel : scene.ground) {
    channel = grey + rng.uniform(-40, 40);
  }
  const std::uint64_t wanted = 1 + rng.below(static_cast<std::uint64_t>(max_objects));
  Visibility visibility;
  const auto most_tries = static_cast<int>(wanted) * kTriesPerObject;
  // The first shape fits somewhere sooner or later; a crowded picture may end up with fewer than
  // wanted.
  for (int tries = 0; scene.shapes.empty() || (tries < most_tries && scene.shapes.size() < wanted);
       ++tries) {
    Shape shape = draw_shape(size, scene.ground, rng);
    if (is_inside(shape.box(), size) && visibility.add(polygon_coverage(shape.polygon, size))) {
      scene.shapes.push_back(std::move(shape));
    }
  }
  return scene;
}

}  // namespace detforge::shapes
