#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "detforge/core/rng.h"
#include "detforge/data/resize.h"
#include "detforge/structures/sample.h"

namespace detforge {

/// One step that changes an image together with its objects, as one record: boxes and polygons
/// follow the image exactly, in double precision, RLE masks as Detectron2's bitmaps do
/// (sample_geometry.h). Boxes may leave the image until filter_instances() clips them. Stateless
/// after construction, so one object serves all loader threads.
class Transform {
 public:
  virtual ~Transform() = default;
  /// Draws what it needs from `rng`. original_size, ids, labels and areas stay as they are. May
  /// remove objects that it shows too little of, but never adds any.
  virtual void apply(Sample& sample, Rng& rng) const = 0;
};

/// Detectron2's ResizeShortestEdge.
class ResizeShortestEdge : public Transform {
 public:
  enum class Style { kChoice, kRange };
  struct Options {
    std::vector<std::int64_t> short_edges = {640, 672, 704,
                                             736, 768, 800};  ///< kRange: lowest and highest
    std::int64_t max_size = 1333;                             ///< bound of the longer edge
    Style style = Style::kChoice;  ///< one of short_edges, or any length between two
  };
  /// Throws Error unless short_edges are positive, and ascending and two for kRange.
  explicit ResizeShortestEdge(Options options,
                              Interpolation interpolation = Interpolation::kPillow);
  void apply(Sample& sample, Rng& rng) const override;

 private:
  Options options_;
  Interpolation interpolation_;
};

/// Mirrors with a probability: x' = width - x, or y' = height - y.
class RandomFlip : public Transform {
 public:
  enum class Direction { kHorizontal, kVertical };
  RandomFlip(Direction direction, double probability);
  void apply(Sample& sample, Rng& rng) const override;

 private:
  Direction direction_;
  double probability_;
};

/// Cuts a window out of the image, anywhere inside it. Detectron2's RandomCrop.
class RandomCrop : public Transform {
 public:
  enum class Type {
    kAbsolute,       ///< size = pixels, at most the image's
    kRelative,       ///< size = fractions of the image's
    kRelativeRange,  ///< each edge a random fraction between size and 1
    kAbsoluteRange,  ///< each edge random pixels between size[0] and size[1]
  };
  struct Options {
    Type type = Type::kRelativeRange;
    std::array<double, 2> size = {
        0.9, 0.9};  ///< (height, width), or (lowest, highest) for kAbsoluteRange
  };
  /// Throws Error if the sizes are impossible for the type.
  explicit RandomCrop(Options options);
  void apply(Sample& sample, Rng& rng) const override;

 private:
  ImageSize crop_size(ImageSize image, Rng& rng) const;
  Options options_;
};

struct FilterOptions {
  bool masks = false;            ///< objects whose mask shows nothing are removed, too
  bool recompute_boxes = false;  ///< boxes become those of the masks, where there is one: after a
                                 ///< crop an object's tight box is not its old box cut
};

/// What filter_instances() and the transforms before it did.
struct FilterCounts {
  std::int64_t clipped = 0;      ///< boxes that reached over the border
  std::int64_t dropped = 0;      ///< objects removed in all
  std::int64_t masks_empty = 0;  ///< of these: objects that had a mask of which nothing is left
  std::int64_t cropped_out = 0;  ///< of these: objects that a transform removed, since a crop shows
                                 ///< too little of them
};

/// The one routine that makes a sample valid after transforms: boxes are clipped to the image, and
/// instances whose box is then not above 1e-5 pixels in both directions are removed as whole
/// records (Detectron2's filter_empty_instances); with FilterOptions::masks, so are those with an
/// RLE mask without a pixel. An object that never had a mask stays for its box.
FilterCounts filter_instances(Sample& sample, const FilterOptions& options = {});

}  // namespace detforge
