#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "detforge/structures/box.h"
#include "detforge/structures/image.h"
#include "detforge/structures/segmentation.h"

namespace detforge {

/// One annotated object. Transforms and filters treat it as one record, so box, class and mask stay
/// aligned.
struct Instance {
  Box box;                         ///< in the coordinates of the sample's current image
  std::int64_t label = 0;          ///< class 0..K-1
  std::int64_t annotation_id = 0;  ///< as in the file; unique only if the file's ids are
  double area = 0;  ///< as in the file, else mask area, else box area; original pixels
  bool is_crowd = false;
  Segmentation segmentation;
};

/// One image with its objects on the way from disk to batch.
struct Sample {
  std::int64_t image_id = 0;
  std::string path;
  Image image;
  ImageSize original_size;  ///< before any transform, after EXIF turning
  std::vector<Instance> instances;
  std::optional<Window> content = {};  ///< what of the image shows the file's picture, scaled;
                                       ///< none: all of it. A letterbox sets it; random transforms,
                                       ///< which nobody undoes, do not follow it
  std::uint64_t rng_key = 0;  ///< keys the model's random sampling for this image in this epoch
};

}  // namespace detforge
