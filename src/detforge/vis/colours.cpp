#include "detforge/vis/colours.h"

#include <algorithm>
#include <cmath>

namespace detforge {
namespace {

constexpr int kShades = 9;

/// Turns of the colour circle, shades of grey left out.
struct Tone {
  double hue, saturation, value;
};

Tone class_tone(std::int64_t label) {
  // Steps of the golden ratio around the colour circle never come close to one another for long.
  return {.hue = static_cast<double>(label) * 0.618033988749895 + 0.09,
          .saturation = label % 3 == 2 ? 0.62 : 0.88,
          .value = label % 2 == 0 ? 255.0 : 215.0};
}

Colour to_bgr(const Tone& tone) {
  const double hue = 6 * (tone.hue - std::floor(tone.hue));
  Colour bgr{};
  constexpr std::array<double, 3> kOffsets = {1, 3, 5};  // of blue, green and red
  for (std::size_t channel = 0; channel < 3; ++channel) {
    const double at = std::fmod(hue + kOffsets[channel], 6.0);
    const double share = std::clamp(std::min(at, 4 - at), 0.0, 1.0);
    bgr[channel] =
        static_cast<std::uint8_t>(std::lround(tone.value * (1 - tone.saturation * share)));
  }
  return bgr;
}

/// Whether two boxes overlap or nearly touch.
bool are_neighbours(const Box& a, const Box& b) {
  constexpr double kReach = 6;  // pixels
  return a.x1 < b.x2 + kReach && b.x1 < a.x2 + kReach && a.y1 < b.y2 + kReach &&
         b.y1 < a.y2 + kReach;
}

/// Shade 0 is the class's own tone, 1 to 4 turn it one way, 5 to 8 the other.
int turn_of(int shade) {
  return shade <= kShades / 2 ? shade : shade - kShades;
}

/// How different two shades look: they are steps of a circle if the class has all of it, else of a
/// piece of it.
int distance(int a, int b, bool circle) {
  const int steps = std::abs(turn_of(a) - turn_of(b));
  return circle ? std::min(steps, kShades - steps) : steps;
}

/// The shade that differs most from the neighbours' shades; the first of those in the order 0, 4,
/// 8, 3, 7, ..., which itself goes in big steps.
int pick_shade(const std::vector<int>& neighbours, bool circle) {
  int best = 0, best_distance = -1;
  for (int i = 0; i < kShades; ++i) {
    const int shade = i * 4 % kShades;
    int nearest = kShades;
    for (const int other : neighbours) {
      nearest = std::min(nearest, distance(shade, other, circle));
    }
    if (nearest > best_distance) {
      best = shade;
      best_distance = nearest;
    }
  }
  return best;
}

Colour shaded(std::int64_t label, int shade, double spread) {
  Tone tone = class_tone(label);
  const int turn = turn_of(shade);
  tone.hue += spread * turn / kShades;
  tone.value -= turn % 2 == 0 ? 0 : 22;
  return to_bgr(tone);
}

}  // namespace

Colour class_colour(std::int64_t label) {
  return to_bgr(class_tone(label));
}

std::vector<Colour> object_colours(std::span<const Box> boxes,
                                   std::span<const std::int64_t> labels,
                                   std::int64_t class_count) {
  const bool circle = class_count == 1;
  const double share = class_count > 0 ? 1.0 / static_cast<double>(class_count) : 0;
  const double spread = circle ? 1.0 : std::max(0.2, 0.6 * share);
  std::vector<int> shades;
  std::vector<Colour> colours;
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    std::vector<int> neighbours;
    for (std::size_t j = 0; j < i; ++j) {
      if (labels[j] == labels[i] && are_neighbours(boxes[i], boxes[j])) {
        neighbours.push_back(shades[j]);
      }
    }
    shades.push_back(pick_shade(neighbours, circle));
    colours.push_back(shaded(labels[i], shades.back(), spread));
  }
  return colours;
}

}  // namespace detforge
