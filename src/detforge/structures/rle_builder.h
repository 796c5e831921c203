#pragma once

#include <cstdint>
#include <vector>

#include "detforge/structures/segmentation.h"

namespace detforge {

/// Writes an Rle from the spans of set pixels, in column-major order, in the one form that
/// pycocotools' encode() gives a mask: no run is 0 but possibly the first, touching spans are one.
///   RleBuilder builder({3, 4});
///   builder.set(4, 8);
///   Rle rle = builder.take();  // counts 4 4 4
class RleBuilder {
 public:
  /// Throws Error unless both sides are positive and the pixels fit in 32 bits.
  explicit RleBuilder(ImageSize size);
  /// Sets the pixels begin..end-1; nothing if end <= begin. Not below the end of the span before,
  /// nor above height * width.
  void set(std::uint64_t begin, std::uint64_t end);
  /// The mask; the builder is used up.
  Rle take();

 private:
  Rle rle_;
  std::uint64_t end_ = 0;  ///< pixels that the runs so far cover
};

/// height * width. Throws Error unless both are positive and the product fits in 32 bits, which is
/// what a run can count.
std::uint64_t mask_pixels(ImageSize size);

}  // namespace detforge
