#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "detforge/structures/box.h"
#include "detforge/structures/image.h"

namespace detforge {

/// Run lengths of a binary mask in column-major order, the first run of zeros (COCO's RLE,
/// decoded).
struct Rle {
  ImageSize size;
  std::vector<std::uint32_t> counts;
};

/// An instance's mask as the annotation gave it: polygons (x0 y0 x1 y1 ... in pixels), or an RLE,
/// or neither.
struct Segmentation {
  std::vector<std::vector<double>> polygons;
  Rle rle;  ///< used when counts is not empty
  bool empty() const { return polygons.empty() && rle.counts.empty(); }
};

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
  std::uint64_t rng_key = 0;  ///< keys the model's random sampling for this image in this epoch
};

}  // namespace detforge
