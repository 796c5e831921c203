#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <utility>
#include <vector>

#include "detforge/core/rng.h"
#include "detforge/structures/segmentation.h"

namespace detforge::test {

/// A bitmap, row by row: the slow and simple form that RLE functions are compared with.
struct Bitmap {
  ImageSize size;
  std::vector<std::uint8_t> pixels;

  explicit Bitmap(ImageSize image)
      : size(image), pixels(static_cast<std::size_t>(image.height * image.width), 0) {}
  std::uint8_t& at(std::int64_t y, std::int64_t x) {
    return pixels[static_cast<std::size_t>(y * size.width + x)];
  }
  bool operator==(const Bitmap&) const = default;
};

/// Runs of a bitmap, a pixel at a time down each column.
inline Rle naive_runs(Bitmap bitmap) {
  Rle rle{bitmap.size, {0}};
  for (std::int64_t x = 0; x < bitmap.size.width; ++x) {
    for (std::int64_t y = 0; y < bitmap.size.height; ++y) {
      const bool run_is_set = rle.counts.size() % 2 == 0;
      if ((bitmap.at(y, x) != 0) != run_is_set) {
        rle.counts.push_back(0);
      }
      ++rle.counts.back();
    }
  }
  return rle;
}

inline Bitmap naive_bitmap(const Rle& rle) {
  Bitmap bitmap(rle.size);
  std::int64_t at = 0;
  for (std::size_t i = 0; i < rle.counts.size(); ++i) {
    for (std::uint32_t k = 0; k < rle.counts[i]; ++k, ++at) {
      bitmap.at(at % rle.size.height, at / rle.size.height) = i % 2 == 1;
    }
  }
  return bitmap;
}

/// pycocotools' description of rleFrPoly, literally: walk every grid point of the outline, note
/// where it changes between grid columns 5c+2 and 5c+3, and toggle the pixels from there to the end
/// of the image.
inline Bitmap naive_polygon(std::span<const double> xy, ImageSize size) {
  struct Point {
    int x, y;
  };
  std::vector<Point> corners, outline;
  for (std::size_t i = 0; i + 1 < xy.size(); i += 2) {
    corners.push_back({static_cast<int>(5 * xy[i] + .5), static_cast<int>(5 * xy[i + 1] + .5)});
  }
  for (std::size_t i = 0; i < corners.size(); ++i) {
    Point a = corners[i], b = corners[(i + 1) % corners.size()];
    const int dx = std::abs(a.x - b.x), dy = std::abs(a.y - b.y);
    const bool flip = (dx >= dy && a.x > b.x) || (dx < dy && a.y > b.y);
    if (flip) {
      std::swap(a, b);
    }
    const int steps = std::max(dx, dy);
    for (int d = 0; d <= steps; ++d) {
      const int t = flip ? steps - d : d;
      if (steps == 0) {
        outline.push_back(a);
      } else if (dx >= dy) {
        const double slope = static_cast<double>(b.y - a.y) / dx;
        outline.push_back({a.x + t, static_cast<int>(a.y + slope * t + .5)});
      } else {
        const double slope = static_cast<double>(b.x - a.x) / dy;
        outline.push_back({static_cast<int>(a.x + slope * t + .5), a.y + t});
      }
    }
  }
  Bitmap bitmap(size);
  const auto height = static_cast<double>(size.height);
  for (std::size_t i = 1; i < outline.size(); ++i) {
    const auto [x, y] = outline[i];
    const auto [x0, y0] = outline[i - 1];
    const double column = ((x < x0 ? x : x - 1) + .5) / 5 - .5;
    if (x == x0 || std::floor(column) != column || column < 0 ||
        column > static_cast<double>(size.width - 1)) {
      continue;
    }
    const double row = std::ceil(std::min(height, std::max(0.0, (std::min(y, y0) + .5) / 5 - .5)));
    const std::int64_t from =
        static_cast<std::int64_t>(column) * size.height + static_cast<std::int64_t>(row);
    for (std::int64_t at = from; at < size.height * size.width; ++at) {
      bitmap.at(at % size.height, at / size.height) ^= 1;
    }
  }
  return bitmap;
}

/// Blocks and noise; now and then empty or full.
inline Bitmap random_bitmap(Rng& rng) {
  Bitmap bitmap({static_cast<std::int64_t>(1 + rng.below(70)),
                 static_cast<std::int64_t>(1 + rng.below(150))});
  const std::uint64_t kind = rng.below(5);
  const double density = kind == 0 ? 0 : kind == 1 ? 1 : rng.uniform();
  const auto block = static_cast<std::int64_t>(1 + rng.below(9));
  const std::uint64_t key = rng.below(1U << 30);
  for (std::int64_t y = 0; y < bitmap.size.height; ++y) {
    for (std::int64_t x = 0; x < bitmap.size.width; ++x) {
      Rng cell(mix64(key, static_cast<std::uint64_t>((y / block) * 1000 + x / block)));
      bitmap.at(y, x) = cell.uniform() < density ? static_cast<std::uint8_t>(1 + kind) : 0;
    }
  }
  return bitmap;
}

}  // namespace detforge::test
