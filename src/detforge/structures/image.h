#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace detforge {

/// Height and width in pixels; sizes are always in this order.
struct ImageSize {
  std::int64_t height = 0, width = 0;
  bool operator==(const ImageSize&) const = default;
};

/// A rectangle of whole pixels in an image, given by its top left pixel.
struct Window {
  std::int64_t left = 0, top = 0;
  ImageSize size = {};
  bool operator==(const Window&) const = default;
};

/// A decoded picture: 8 bits, 3 channels interleaved (HWC) in BGR order, rows without padding.
struct Image {
  std::int64_t height = 0, width = 0;
  std::vector<std::uint8_t> bgr;  ///< height * width * 3 bytes

  ImageSize size() const { return {height, width}; }
  const std::uint8_t* row(std::int64_t y) const {
    return bgr.data() + static_cast<std::size_t>(y * width * 3);
  }
  std::uint8_t* row(std::int64_t y) { return bgr.data() + static_cast<std::size_t>(y * width * 3); }
};

}  // namespace detforge
