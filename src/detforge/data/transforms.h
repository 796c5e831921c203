#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "detforge/core/rng.h"
#include "detforge/data/copy_paste.h"
#include "detforge/structures/sample.h"

namespace detforge {

/// One step that changes an image together with its objects, as one record: boxes and polygons
/// follow the image exactly, in double precision, RLE masks as Detectron2's bitmaps do
/// (sample_geometry.h). Boxes may leave the image until filter_instances() clips them. Stateless
/// after construction, so one object serves all loader threads.
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

/// Sizes and factors of ResizeScale followed by FixedSizeCrop (large_scale_jitter.h).
struct LargeScaleJitterOptions {
  double min_scale = 0.1, max_scale = 2.0;  ///< of the random factor, uniform between
  ImageSize size = {1024, 1024};            ///< of every image afterwards
  std::uint8_t padding = 128;               ///< value of pixels beside a small image
};

struct FilterOptions {
  bool masks = false;            ///< objects whose mask shows nothing are removed, too
  bool recompute_boxes = false;  ///< boxes become those of the masks, where there is one: after a
                                 ///< crop an object's tight box is not its old box cut
};

/// What filter_instances() did.
struct FilterCounts {
  std::int64_t clipped = 0;      ///< boxes that reached over the border
  std::int64_t dropped = 0;      ///< objects removed in all
  std::int64_t masks_empty = 0;  ///< of these: objects that had a mask of which nothing is left
};

/// The one routine that makes a sample valid after transforms: boxes are clipped to the image, and
/// instances whose box is then not above 1e-5 pixels in both directions are removed as whole
/// records (Detectron2's filter_empty_instances); with FilterOptions::masks, so are those with an
/// RLE mask without a pixel. An object that never had a mask stays for its box.
FilterCounts filter_instances(Sample& sample, const FilterOptions& options = {});

/// Detectron2's training augmentation: [crop], resize of the shortest edge or large-scale jitter,
/// [flip], [masks as bitmaps]; then filter_instances(); then [copy-paste]. Equal to its
/// DatasetMapper in pixels, boxes and masks for the same random choices. Thread-safe.
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
    std::optional<LargeScaleJitterOptions> large_scale_jitter = {};  ///< instead of min_sizes
    std::optional<CopyPasteOptions> copy_paste = {};                 ///< needs masks
    bool masks = false;            ///< MODEL.MASK_ON: objects whose mask is lost are removed
    bool recompute_boxes = false;  ///< FilterOptions; Detectron2: MASK_ON and CROP.ENABLED, or LSJ
    bool bitmasks = false;         ///< INPUT.MASK_FORMAT bitmask: polygons become RLE at the end
  };
  /// A second sample for copy-paste, untransformed, chosen with numbers of the generator.
  using Partner = std::function<Sample(Rng&)>;

  /// Throws Error for impossible options. min_sizes = {0} leaves the size as it is.
  explicit TransformPipeline(const Options& options);
  /// The random choices are a function of the rng alone, so of (seed, epoch, sample). Throws Error
  /// if copy-paste is on and there is no partner. Whatever a transform throws becomes an Error that
  /// names id and path of the image at hand, which may be the partner's.
  FilterCounts apply(Sample& sample, Rng& rng, const Partner& partner = {}) const;

 private:
  FilterCounts transform(Sample& sample, Rng& rng) const;

  std::vector<std::unique_ptr<const Transform>> transforms_;
  FilterOptions filter_;
  bool bitmasks_;
  std::optional<CopyPasteOptions> copy_paste_;
};

}  // namespace detforge
