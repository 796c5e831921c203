#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "detforge/core/tensor.h"
#include "detforge/structures/image.h"

namespace detforge {

/// Network input: normalised images, zero-padded at the right and bottom to one size.
struct ImageBatch {
  Tensor images;                 ///< [N,3,H,W] f32: (x - PIXEL_MEAN) / PIXEL_STD, padding 0
  std::vector<ImageSize> sizes;  ///< N sizes without padding
  std::vector<ImageSize> original_sizes;  ///< N sizes of the files, to scale detections back to
  std::vector<std::int64_t> image_ids;    ///< N COCO image ids
  std::vector<std::string> paths;         ///< N file names, for messages
  std::vector<std::uint64_t> rng_keys;    ///< N keys for the model's random sampling (train only)
  std::vector<Window> contents = {};  ///< N parts of the images that show the files' pictures: less
                                      ///< than `sizes` in a letterbox; empty: all of every image

  std::int64_t count() const { return static_cast<std::int64_t>(sizes.size()); }
  /// Where image i shows the file's picture.
  Window content(std::size_t i) const {
    return contents.empty() ? Window{.size = sizes[i]} : contents[i];
  }
};

}  // namespace detforge
