#pragma once

#include <cstdint>
#include <filesystem>

#include "detforge/structures/image.h"

namespace detforge {

/// What make_shapes() draws.
struct ShapesOptions {
  std::filesystem::path output;      ///< folder; made if missing
  std::int64_t train_images = 1200;  ///< pictures in train/
  std::int64_t val_images = 100;     ///< pictures in val/
  ImageSize size = {160, 240};       ///< of every picture
  std::int64_t max_objects = 6;      ///< each picture has 1 to this many
  std::uint64_t seed = 1;            ///< same seed, same bytes
  bool rle = false;  ///< masks as compressed RLE of what is visible, instead of whole polygons
};

/// What make_shapes() did.
struct ShapesReport {
  bool already_there = false;  ///< the folder held this very dataset; nothing was written
  std::int64_t images = 0, objects = 0;
};

/// Draws a small COCO-format dataset, so that training can start on a machine without data:
///   OUTPUT/train/*.jpg, OUTPUT/val/*.jpg, OUTPUT/annotations/instances_{train,val}.json,
///   OUTPUT/shapes.json (options)
/// Discs, boxes, triangles and stars of any colour and pattern lie on textured ground and may hide
/// up to half of one another; every shape is whole inside the picture. Box, polygon and area are
/// those of the whole shape, exact, also where it is hidden. With `rle` they are those of the
/// visible part instead: the mask an RLE (iscrowd 0), with holes and in several parts where others
/// lie on the shape, box and area those of its pixels. Picture i depends only on (seed, train or
/// val, i, size, max_objects). Does nothing where the same dataset is complete already; continues
/// an interrupted one. Throws Error for impossible options and where `output` holds anything else.
ShapesReport make_shapes(const ShapesOptions& options);

}  // namespace detforge
