#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "detforge/core/rng.h"
#include "detforge/structures/sample.h"

namespace detforge {

/// One step that changes an image together with its objects. Boxes and polygons follow the image
/// exactly, in double precision. An RLE mask cannot follow a change of geometry: it is dropped,
/// never left wrong (box training does not need it). Boxes may leave the image until
/// filter_instances() clips them. Stateless after construction, so one object serves all loader
/// threads.
class Transform {
 public:
  virtual ~Transform() = default;
  /// Draws what it needs from `rng`. original_size, ids, labels and areas stay as they are.
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
  explicit ResizeShortestEdge(Options options);
  void apply(Sample& sample, Rng& rng) const override;

 private:
  Options options_;
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

/// What filter_instances() did.
struct FilterCounts {
  std::int64_t clipped = 0;  ///< boxes that reached over the border
  std::int64_t dropped = 0;  ///< boxes with nothing left inside the image
};

/// The one routine that makes a sample valid after transforms: boxes are clipped to the image, and
/// instances whose box is then not above 1e-5 pixels in both directions are removed as whole
/// records (Detectron2's filter_empty_instances). Polygons are not clipped: rasterising them inside
/// the box does that.
FilterCounts filter_instances(Sample& sample);

/// Detectron2's training augmentation: [crop], resize of the shortest edge, [flip]; then
/// filter_instances(). Equal to its DatasetMapper in pixels, boxes and polygons for the same random
/// choices. Thread-safe.
///   const TransformPipeline pipeline({.min_sizes = {800}, .flip =
///   TransformPipeline::Flip::kNone}); pipeline.apply(sample, rng);
class TransformPipeline {
 public:
  enum class Flip { kNone, kHorizontal, kVertical };
  struct Options {
    std::vector<std::int64_t> min_sizes = {640, 672, 704, 736, 768, 800};  ///< INPUT.MIN_SIZE_TRAIN
    std::int64_t max_size = 1333;                                          ///< INPUT.MAX_SIZE_TRAIN
    ResizeShortestEdge::Style sample_style = ResizeShortestEdge::Style::kChoice;
    Flip flip = Flip::kHorizontal;  ///< INPUT.RANDOM_FLIP
    double flip_probability = 0.5;
    bool crop = false;  ///< INPUT.CROP.ENABLED
    RandomCrop::Options crop_options = {};
  };
  /// Throws Error for impossible options. min_sizes = {0} leaves the size as it is.
  explicit TransformPipeline(const Options& options);
  /// The random choices are a function of the rng alone, so of (seed, epoch, sample).
  FilterCounts apply(Sample& sample, Rng& rng) const;

 private:
  std::vector<std::unique_ptr<const Transform>> transforms_;
};

}  // namespace detforge
