#include "detforge/data/photometric_distortion.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "detforge/core/error.h"

namespace detforge {
namespace {

constexpr float kTiny = std::numeric_limits<float>::epsilon();  // OpenCV's guard of divisions

/// Some pixels as planes, so that the compiler can work on several at once.
struct Block {
  static constexpr std::size_t kSize = 256;
  std::array<std::array<float, kSize>, 3> bgr;
};

/// A pixel's channel n (5: red, 3: green, 1: blue) from HSV, the hue in sixths of the circle:
/// V - V * S * max(0, min(k, 4 - k, 1)), k = n + H mod 6. The same as OpenCV's table of sectors.
float channel_of(float n, float hue, float value, float chroma) {
  float k = n + hue;
  k = k >= 6 ? k - 6 : k;
  return value - chroma * std::max(0.F, std::min(std::min(k, 4 - k), 1.F));
}

void change_in_hsv(float& blue, float& green, float& red, const PhotometricChange& change) {
  const float value = std::max(std::max(blue, green), red);
  const float range = value - std::min(std::min(blue, green), red);
  const float saturation = range / (std::fabs(value) + kTiny) * change.saturation;
  const float degrees = 60.F / (range + kTiny);
  float hue = value == red     ? (green - blue) * degrees
              : value == green ? (blue - red) * degrees + 120.F
                               : (red - green) * degrees + 240.F;
  hue = hue < 0 ? hue + 360.F : hue;
  hue += change.hue;
  hue = hue > 360.F ? hue - 360.F : hue;
  hue = hue < 0 ? hue + 360.F : hue;
  const float sixths = hue * (6.F / 360.F), chroma = value * saturation;
  blue = channel_of(1, sixths, value, chroma);
  green = channel_of(3, sixths, value, chroma);
  red = channel_of(5, sixths, value, chroma);
}

void change_block(Block& block, std::size_t count, const PhotometricChange& change) {
  const float before = change.contrast_first ? change.contrast : 1.F,
              after = change.contrast_first ? 1.F : change.contrast;
  for (std::size_t i = 0; i < count; ++i) {
    float blue = (block.bgr[0][i] + change.brightness) * before;
    float green = (block.bgr[1][i] + change.brightness) * before;
    float red = (block.bgr[2][i] + change.brightness) * before;
    change_in_hsv(blue, green, red, change);
    block.bgr[0][i] = blue * after;
    block.bgr[1][i] = green * after;
    block.bgr[2][i] = red * after;
  }
}

void load(const std::uint8_t* pixels, std::size_t count, Block& block) {
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t channel = 0; channel < 3; ++channel) {
      block.bgr[channel][i] = static_cast<float>(pixels[3 * i + channel]);
    }
  }
}

void store(const Block& block,
           const std::array<std::size_t, 3>& channels,
           std::size_t count,
           std::uint8_t* pixels) {
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t channel = 0; channel < 3; ++channel) {
      const float value = std::clamp(block.bgr[channels[channel]][i], 0.F, 255.F);
      // Not negative, and a call of lround() would cost more than all else here.
      pixels[3 * i + channel] =
          static_cast<std::uint8_t>(value + 0.5F);  // NOLINT(bugprone-incorrect-roundings)
    }
  }
}

}  // namespace

void change_colours_(Image& image, const PhotometricChange& change) {
  Block block;
  const std::size_t pixels = image.bgr.size() / 3;
  for (std::size_t done = 0; done < pixels; done += Block::kSize) {
    const std::size_t count = std::min(Block::kSize, pixels - done);
    std::uint8_t* place = image.bgr.data() + 3 * done;
    load(place, count, block);
    change_block(block, count, change);
    store(block, change.channels, count, place);
  }
}

PhotometricDistortion::PhotometricDistortion(const Options& options) : options_(options) {
  DETFORGE_CHECK(
      options.min_contrast >= 0 && options.min_contrast <= options.max_contrast &&
          options.min_saturation >= 0 && options.min_saturation <= options.max_saturation &&
          options.brightness >= 0 && options.hue >= 0 && options.hue <= 360,
      fmt::format(
          "photometric distortion by brightness {}, contrast {} to {}, saturation {} to {}, "
          "hue {}",
          options.brightness, options.min_contrast, options.max_contrast, options.min_saturation,
          options.max_saturation, options.hue),
      "give positive numbers, ranges from low to high, and a hue up to 360 degrees");
}

PhotometricChange PhotometricDistortion::draw(Rng& rng) const {
  const auto chance = [&] { return rng.below(2) == 1; };
  const auto number = [&](double low, double high) {
    return static_cast<float>(rng.uniform(low, high));
  };
  PhotometricChange change;
  change.contrast_first = chance();
  if (chance()) {
    change.brightness = number(-options_.brightness, options_.brightness);
  }
  if (chance()) {
    change.contrast = number(options_.min_contrast, options_.max_contrast);
  }
  if (chance()) {
    change.saturation = number(options_.min_saturation, options_.max_saturation);
  }
  if (chance()) {
    change.hue = number(-options_.hue, options_.hue);
  }
  if (chance()) {
    for (std::size_t i = 2; i > 0; --i) {
      std::swap(change.channels[i], change.channels[rng.below(i + 1)]);
    }
  }
  return change;
}

void PhotometricDistortion::apply(Sample& sample, Rng& rng) const {
  change_colours_(sample.image, draw(rng));
}

}  // namespace detforge
