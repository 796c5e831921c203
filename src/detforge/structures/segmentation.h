#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "detforge/structures/image.h"

namespace detforge {

/// Run lengths of a binary mask in column-major order, the first run of zeros (COCO's RLE,
/// decoded). The runs sum to height * width: see check_rle().
struct Rle {
  ImageSize size;
  std::vector<std::uint32_t> counts;
  bool operator==(const Rle&) const = default;
};

/// A borrowed Rle: valid as long as its owner is unchanged.
struct RleView {
  ImageSize size;
  std::span<const std::uint32_t> counts;

  RleView() = default;
  RleView(ImageSize image, std::span<const std::uint32_t> runs) : size(image), counts(runs) {}
  // NOLINTNEXTLINE(google-explicit-constructor)
  RleView(const Rle& rle) : size(rle.size), counts(rle.counts) {}
};

/// An instance's mask as the annotation gave it: polygons (x0 y0 x1 y1 ... in pixels), or an RLE,
/// or neither.
struct Segmentation {
  std::vector<std::vector<double>> polygons;
  Rle rle;  ///< used when counts is not empty
  bool empty() const { return polygons.empty() && rle.counts.empty(); }
};

}  // namespace detforge
