#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "detforge/core/error.h"
#include "detforge/data/resize.h"

namespace detforge {
namespace {

constexpr int kWeightBits = 11;

/// The two input pixels between which an output pixel lies, and how much each gives (in units of
/// 2^-kWeightBits).
struct Taps {
  std::int64_t first = 0, second = 0;
  std::int16_t first_weight = 0, second_weight = 0;
};

/// One for each of `out` pixels along an axis; beyond the outermost pixel centres both are the
/// border pixel. The mixture of double and float is OpenCV's.
std::vector<Taps> linear_taps(std::int64_t in, std::int64_t out) {
  const double scale = 1.0 / (static_cast<double>(out) / static_cast<double>(in));
  const auto fixed = [](float weight) {
    return static_cast<std::int16_t>(std::lrint(weight * (1 << kWeightBits)));
  };
  std::vector<Taps> taps;
  taps.reserve(static_cast<std::size_t>(out));
  for (std::int64_t i = 0; i < out; ++i) {
    const auto centre = static_cast<float>((static_cast<double>(i) + 0.5) * scale - 0.5);
    const float below = std::floor(centre), share = centre - below;
    const auto pixel = static_cast<std::int64_t>(below);
    taps.push_back({.first = std::clamp<std::int64_t>(pixel, 0, in - 1),
                    .second = std::clamp<std::int64_t>(pixel + 1, 0, in - 1),
                    .first_weight = fixed(1.F - share),
                    .second_weight = fixed(share)});
  }
  return taps;
}

/// Input rows in the output's width, in units of 2^-7 (what OpenCV keeps of 2^-11). Output rows ask
/// for neighbours and go downwards, so the last two are kept.
class Rows {
 public:
  Rows(const Image& image, const std::vector<Taps>& columns) : image_(image), columns_(columns) {
    for (Slot& slot : slots_) {
      slot.values.resize(3 * columns.size());
    }
  }

  const std::int16_t* row(std::int64_t y) {
    Slot& slot = slots_[static_cast<std::size_t>(y % 2)];
    if (slot.y != y) {
      fill(image_.row(y), slot.values.data());
      slot.y = y;
    }
    return slot.values.data();
  }

 private:
  struct Slot {
    std::int64_t y = -1;
    std::vector<std::int16_t> values;
  };

  void fill(const std::uint8_t* in, std::int16_t* out) const {
    for (const Taps& taps : columns_) {
      const std::uint8_t *first = in + 3 * taps.first, *second = in + 3 * taps.second;
      for (int channel = 0; channel < 3; ++channel) {
        const int sum = first[channel] * taps.first_weight + second[channel] * taps.second_weight;
        *out++ = static_cast<std::int16_t>(sum >> 4);
      }
    }
  }

  const Image& image_;
  const std::vector<Taps>& columns_;
  std::array<Slot, 2> slots_;
};

void blend_rows(const std::int16_t* first,
                const std::int16_t* second,
                const Taps& taps,
                std::uint8_t* out,
                std::int64_t count) {
  const int a = taps.first_weight, b = taps.second_weight;
  for (std::int64_t i = 0; i < count; ++i) {
    const int sum = (a * first[i] >> 16) + (b * second[i] >> 16);  // in units of 2^-2
    out[i] = static_cast<std::uint8_t>((sum + 2) >> 2);
  }
}

/// The mean of two by two pixels, halves rounded up.
Image halved(const Image& image) {
  Image out{image.height / 2, image.width / 2, {}};
  out.bgr.resize(static_cast<std::size_t>(out.height * out.width * 3));
  for (std::int64_t y = 0; y < out.height; ++y) {
    const std::uint8_t *top = image.row(2 * y), *bottom = image.row(2 * y + 1);
    std::uint8_t* target = out.row(y);
    for (std::int64_t i = 0; i < 3 * out.width; ++i) {
      const std::int64_t from = i / 3 * 6 + i % 3;
      const int sum = top[from] + top[from + 3] + bottom[from] + bottom[from + 3];
      target[i] = static_cast<std::uint8_t>((sum + 2) >> 2);
    }
  }
  return out;
}

}  // namespace

Image resize_bilinear_opencv(const Image& image, ImageSize size) {
  DETFORGE_CHECK(size.height > 0 && size.width > 0 && image.height > 0 && image.width > 0,
                 fmt::format("cannot resize {}x{} to {}x{} (height x width)", image.height,
                             image.width, size.height, size.width),
                 "sizes must be positive");
  if (image.height == 2 * size.height && image.width == 2 * size.width) {
    return halved(image);
  }
  const std::vector<Taps> columns = linear_taps(image.width, size.width),
                          rows = linear_taps(image.height, size.height);
  Rows source(image, columns);
  Image out{size.height, size.width, {}};
  out.bgr.resize(static_cast<std::size_t>(size.height * size.width * 3));
  for (std::int64_t y = 0; y < size.height; ++y) {
    const Taps& taps = rows[static_cast<std::size_t>(y)];
    const std::int16_t *first = source.row(taps.first), *second = source.row(taps.second);
    blend_rows(first, second, taps, out.row(y), 3 * size.width);
  }
  return out;
}

}  // namespace detforge
