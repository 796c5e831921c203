#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "detforge/data/copy_paste.h"
#include "detforge/data/darknet_jitter.h"
#include "detforge/data/expand.h"
#include "detforge/data/large_scale_jitter.h"
#include "detforge/data/letterbox.h"
#include "detforge/data/min_iou_crop.h"
#include "detforge/data/mixup.h"
#include "detforge/data/mosaic.h"
#include "detforge/data/multi_scale.h"
#include "detforge/data/photometric_distortion.h"
#include "detforge/data/resize_range.h"
#include "detforge/data/transforms.h"

namespace detforge {

/// The augmentation of training images, and the resizing of all. Every part is optional; they apply
/// in this order, which is that of mmdetection 2 and, where both have a part, of Detectron2:
///   1 photometric distortion, expand, min-IoU crop, crop
///   2 mosaic of this image and three others that went through 1
///   3 one resize: of the shortest edge (min_sizes), or one of large_scale_jitter, resize_range,
///     fixed_size, letterbox, darknet_jitter. After a mosaic that has its size already: none
///   4 flip, masks as bitmaps, filter_instances()
///   5 mixup, then copy-paste, each with another image that went through 1 to 4
/// Normalisation and padding follow in collate(). Equal to Detectron2's DatasetMapper in pixels,
/// boxes and masks for the same random choices, with the options that it has. Thread-safe.
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

    std::optional<PhotometricDistortion::Options> photometric_distortion = {};
    std::optional<Expand::Options> expand = {};
    std::optional<MinIouRandomCrop::Options> min_iou_crop = {};
    std::optional<MosaicOptions> mosaic = {};  ///< its size gives way to that of fixed_size,
                                               ///< letterbox, darknet_jitter and multi_scale
    std::optional<ResizeRange::Options> resize_range = {};      ///< instead of min_sizes
    std::optional<ImageSize> fixed_size = {};                   ///< instead of min_sizes: stretched
    std::optional<Letterbox::Options> letterbox = {};           ///< instead of min_sizes
    std::optional<DarknetJitter::Options> darknet_jitter = {};  ///< instead of min_sizes
    std::optional<MultiScaleOptions> multi_scale = {};          ///< chooses the size of fixed_size,
                                                                ///< letterbox or darknet_jitter
    std::optional<MixupOptions> mixup = {};
    Interpolation interpolation = Interpolation::kPillow;  ///< of every resize
  };
  /// Another sample for mosaic, mixup and copy-paste, untransformed, chosen with numbers of the
  /// generator.
  using Partner = std::function<Sample(Rng&)>;

  /// Throws Error for impossible options. min_sizes = {0} leaves the size as it is.
  explicit TransformPipeline(const Options& options);
  /// The random choices are a function of the rng and, for multi_scale, of the batch, so of (seed,
  /// epoch, sample, batch). Throws Error if another image is needed and there is no partner.
  /// Whatever a transform throws becomes an Error that names id and path of the image at hand,
  /// which may be the partner's. Counts are of all images that became part of the sample by mosaic
  /// and mixup.
  FilterCounts apply(Sample& sample,
                     Rng& rng,
                     const Partner& partner = {},
                     const BatchPlace& place = {}) const;

 private:
  /// What the steps of one apply() share.
  struct Draws {
    Rng& rng;
    const Partner& partner;
    std::optional<ImageSize> size;  ///< of every image after the resize, if all have one
  };
  void add_resize();
  std::optional<ImageSize> image_size(const BatchPlace& place, Rng& rng) const;
  FilterCounts transform(Sample& sample, const Draws& draws) const;
  FilterCounts first_steps(Sample& sample, Rng& rng) const;
  FilterCounts compose_mosaic(Sample& sample, const Draws& draws) const;
  std::unique_ptr<const Transform> resize_to(ImageSize size) const;
  void resize(Sample& sample, const Draws& draws) const;
  void mix(Sample& sample, const Draws& draws, FilterCounts& counts) const;
  void paste(Sample& sample, const Draws& draws, FilterCounts& counts) const;

  Options options_;
  FilterOptions filter_;
  std::vector<std::unique_ptr<const Transform>> first_;   ///< 1
  std::optional<Mosaic> mosaic_;                          ///< 2
  std::vector<std::unique_ptr<const Transform>> resize_;  ///< 3, but for multi-scale
  std::unique_ptr<const Transform> flip_;                 ///< 4
};

}  // namespace detforge
