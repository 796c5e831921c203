#include <algorithm>
#include <cmath>

#include "detforge/data/coverage.h"
#include "detforge/data/resize.h"
#include "detforge/data/shapes_scene.h"

namespace detforge::shapes {
namespace {

/// Noise with features of about `cell` pixels: a coarse random picture, blown up.
Image noise(ImageSize size, std::int64_t cell, Rng& rng) {
  Image coarse{size.height / cell + 2, size.width / cell + 2, {}};
  coarse.bgr.resize(static_cast<std::size_t>(coarse.height * coarse.width * 3));
  for (auto& value : coarse.bgr) {
    value = static_cast<std::uint8_t>(rng.below(256));
  }
  return resize_bilinear(coarse, size);
}

/// Ground colour with light and dark at three scales.
std::vector<double> paint_ground(const Scene& scene, Rng& rng) {
  struct Octave {
    std::int64_t cell;
    double strength;
  };
  std::vector<double> canvas(static_cast<std::size_t>(scene.size.height * scene.size.width * 3));
  for (std::size_t i = 0; i < canvas.size(); ++i) {
    canvas[i] = scene.ground[i % 3];
  }
  for (const Octave octave : {Octave{48, 70}, Octave{12, 45}, Octave{3, 30}}) {
    const Image texture = noise(scene.size, octave.cell, rng);
    for (std::size_t i = 0; i < canvas.size(); ++i) {
      canvas[i] += octave.strength * (texture.bgr[i] / 255.0 - 0.5);
    }
  }
  return canvas;
}

/// The share of the second colour at a point of the shape, 0..1.
double pattern_at(const Shape& shape, const Box& box, double x, double y) {
  const double along = x * std::cos(shape.direction) + y * std::sin(shape.direction);
  const double across = y * std::cos(shape.direction) - x * std::sin(shape.direction);
  const auto wave = [&](double at) { return std::sin(at * 6.2831853 / shape.period); };
  switch (shape.pattern) {
    case Pattern::kStripes:
      return std::clamp(0.5 + 2 * wave(along), 0.0, 1.0);
    case Pattern::kChecks:
      return std::clamp(0.5 + 3 * wave(along) * wave(across), 0.0, 1.0);
    case Pattern::kShaded:
      return std::clamp((y - box.y1) / box.height(), 0.0, 1.0);
    case Pattern::kPlain:
      break;
  }
  return 0.0;
}

/// Darkens what lies right below the shape.
void paint_shadow(std::vector<double>& canvas, const Shape& shape, ImageSize size) {
  std::vector<double> shifted = shape.polygon;
  for (std::size_t i = 0; i < shifted.size(); i += 2) {
    shifted[i] += 2.5;
    shifted[i + 1] += 3.5;
  }
  const Coverage shadow = polygon_coverage(shifted, size);
  for (std::size_t i = 0; i < canvas.size(); ++i) {
    canvas[i] *= 1 - 0.35 * static_cast<double>(shadow.values[i / 3]);
  }
}

void paint_shape(std::vector<double>& canvas, const Shape& shape, ImageSize size) {
  const Coverage coverage = polygon_coverage(shape.polygon, size);
  const Box box = shape.box();
  for (std::int64_t y = 0; y < size.height; ++y) {
    for (std::int64_t x = 0; x < size.width; ++x) {
      const double alpha = std::min(1.0F, coverage.at(y, x));
      if (alpha == 0) {
        continue;
      }
      const double mix =
          pattern_at(shape, box, static_cast<double>(x) + 0.5, static_cast<double>(y) + 0.5);
      double* pixel = canvas.data() + 3 * (y * size.width + x);
      for (std::size_t channel = 0; channel < 3; ++channel) {
        const double surface =
            shape.colour[channel] * (1 - mix) + shape.second_colour[channel] * mix;
        pixel[channel] += alpha * (surface - pixel[channel]);
      }
    }
  }
}

}  // namespace

Image draw_scene(const Scene& scene, Rng& rng) {
  std::vector<double> canvas = paint_ground(scene, rng);
  for (const Shape& shape : scene.shapes) {
    paint_shadow(canvas, shape, scene.size);
    paint_shape(canvas, shape, scene.size);
  }
  const Image grain = noise(scene.size, 1, rng);
  Image image{scene.size.height, scene.size.width, std::vector<std::uint8_t>(canvas.size())};
  for (std::size_t i = 0; i < canvas.size(); ++i) {
    const double value = canvas[i] + 16 * (grain.bgr[i] / 255.0 - 0.5);
    image.bgr[i] = static_cast<std::uint8_t>(std::clamp(value + 0.5, 0.0, 255.0));
  }
  return image;
}

}  // namespace detforge::shapes
