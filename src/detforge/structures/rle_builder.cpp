#include "detforge/structures/rle_builder.h"

#include <cassert>
#include <utility>

#include <fmt/format.h>

#include "detforge/core/error.h"

namespace detforge {

std::uint64_t mask_pixels(ImageSize size) {
  const bool fits = size.height > 0 && size.width > 0 && size.height <= UINT32_MAX &&
                    size.width <= UINT32_MAX && size.height <= UINT32_MAX / size.width;
  DETFORGE_CHECK(fits, fmt::format("a mask has size {} x {}", size.height, size.width),
                 "height and width must be positive, with fewer than 2^32 pixels");
  return static_cast<std::uint64_t>(size.height * size.width);
}

RleBuilder::RleBuilder(ImageSize size) : rle_{size, {}} {
  mask_pixels(size);
}

void RleBuilder::set(std::uint64_t begin, std::uint64_t end) {
  if (end <= begin) {
    return;
  }
  assert(begin >= end_);
  if (begin == end_ && !rle_.counts.empty()) {
    rle_.counts.back() += static_cast<std::uint32_t>(end - begin);
  } else {
    rle_.counts.push_back(static_cast<std::uint32_t>(begin - end_));
    rle_.counts.push_back(static_cast<std::uint32_t>(end - begin));
  }
  end_ = end;
}

Rle RleBuilder::take() {
  const std::uint64_t pixels = mask_pixels(rle_.size);
  if (end_ < pixels) {
    rle_.counts.push_back(static_cast<std::uint32_t>(pixels - end_));
  }
  return std::move(rle_);
}

}  // namespace detforge
