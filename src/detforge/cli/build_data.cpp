#include <array>

#include "detforge/cli/build.h"
#include "detforge/core/error.h"
#include "detforge/models/darknet/darknet_cfg.h"

namespace detforge {
namespace {

std::vector<CocoFiles> annotation_files(const DatasetsConfig& datasets,
                                        const Strings& sources,
                                        const Strings& images,
                                        const std::string& split) {
  const std::string key = split == "train" ? "TRAIN" : "TEST";
  if (sources.empty()) {
    throw Error("the config names no dataset in DATASETS." + key,
                "give --data COCO_ROOT, or set DATASETS." + key + "_JSON and _IMAGES",
                Error::Kind::kUsage);
  }
  std::vector<CocoFiles> files;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    files.push_back({.json = sources[i],
                     .image_root = images.empty() ? "" : images.at(i),
                     .format = parse_format(datasets.format),
                     .split = split});
  }
  return files;
}

TransformPipeline::Flip flip_of(const std::string& name) {
  if (name == "none") {
    return TransformPipeline::Flip::kNone;
  }
  return name == "vertical" ? TransformPipeline::Flip::kVertical
                            : TransformPipeline::Flip::kHorizontal;
}

RandomCrop::Options crop_options(const CropConfig& crop) {
  using Type = RandomCrop::Type;
  Type type = Type::kRelativeRange;
  if (crop.type == "absolute") {
    type = Type::kAbsolute;
  } else if (crop.type == "relative") {
    type = Type::kRelative;
  } else if (crop.type == "absolute_range") {
    type = Type::kAbsoluteRange;
  }
  return {.type = type, .size = {crop.size.at(0), crop.size.at(1)}};
}

std::array<double, 3> three(const Numbers& numbers) {
  return {numbers.at(0), numbers.at(1), numbers.at(2)};
}

ImageSize two(const Integers& height_width) {
  return {height_width.at(0), height_width.at(1)};
}

ImageSize train_size(const Config& config) {
  if (!config.input.size_train.empty()) {
    return two(config.input.size_train);
  }
  if (config.model.darknet.cfg.empty()) {
    return {416, 416};
  }
  const DarknetCfg cfg = read_darknet_cfg(config.model.darknet.cfg);
  return {cfg.height, cfg.width};
}

ImageSize test_size(const Config& config) {
  return config.input.size_test.empty() ? train_size(config) : two(config.input.size_test);
}

Interpolation interpolation_of(const std::string& name) {
  return name == "opencv" ? Interpolation::kOpenCv : Interpolation::kPillow;
}

std::array<std::int64_t, 2> edges(const Integers& two) {
  return {two.at(0), two.at(1)};
}

/// RESIZE_TRAIN and what it uses.
void set_train_resize(const Config& config, TransformPipeline::Options& options) {
  const InputConfig& input = config.input;
  const ImageSize size = train_size(config);
  if (input.resize_train == "range") {
    options.resize_range = {.low = edges(input.range_low), .high = edges(input.range_high)};
  } else if (input.resize_train == "fixed") {
    options.fixed_size = size;
  } else if (input.resize_train == "letterbox") {
    options.letterbox = {.size = size};
  } else if (input.resize_train == "darknet") {
    options.darknet_jitter = {.size = size,
                              .jitter = input.jitter.jitter,
                              .min_scale = input.jitter.scale.at(0),
                              .max_scale = input.jitter.scale.at(1)};
  }
  if (input.multi_scale.enabled) {
    options.multi_scale = {.sizes = input.multi_scale.sizes,
                           .every_batches = input.multi_scale.every_batches};
  }
}

void set_augmentations(const InputConfig& input, TransformPipeline::Options& options) {
  if (const PhotometricDistortionConfig& colours = input.photometric_distortion; colours.enabled) {
    options.photometric_distortion = {.brightness = colours.brightness,
                                      .min_contrast = colours.contrast.at(0),
                                      .max_contrast = colours.contrast.at(1),
                                      .min_saturation = colours.saturation.at(0),
                                      .max_saturation = colours.saturation.at(1),
                                      .hue = colours.hue};
  }
  if (const ExpandConfig& expand = input.expand; expand.enabled) {
    options.expand = {.probability = expand.probability,
                      .min_ratio = expand.ratio.at(0),
                      .max_ratio = expand.ratio.at(1),
                      .fill = static_cast<std::uint8_t>(expand.fill)};
  }
  if (input.min_iou_crop.enabled) {
    options.min_iou_crop = {.min_ious = input.min_iou_crop.min_ious,
                            .min_crop_size = input.min_iou_crop.min_crop_size};
  }
  if (const MosaicConfig& mosaic = input.mosaic; mosaic.enabled) {
    options.mosaic = {.probability = mosaic.probability,
                      .size = two(mosaic.size),
                      .min_scale = mosaic.scale.at(0),
                      .max_scale = mosaic.scale.at(1)};
  }
  if (input.mixup.enabled) {
    options.mixup = {.probability = input.mixup.probability, .alpha = input.mixup.alpha};
  }
}

}  // namespace

CocoDatasetOptions train_dataset_options(const Config& config) {
  return {
      .files = annotation_files(config.datasets, config.datasets.train_json,
                                config.datasets.train_images, "train"),
      .classes = config.datasets.classes,
      .filter_empty = config.dataloader.filter_empty_annotations,
      .min_side = config.dataloader.min_side,
      .keep_segmentation = config.model.mask_on,
      .bad_image = config.dataloader.corrupt_images == "skip" ? CocoDatasetOptions::BadImage::kSkip
                                                              : CocoDatasetOptions::BadImage::kStop,
  };
}

CocoDatasetOptions test_dataset_options(const Config& config) {
  if (config.datasets.test_json.size() > 1) {
    throw Error("DATASETS.TEST names several datasets, but an evaluation judges one",
                "evaluate them one after the other: detforge eval RUN DATASETS.TEST_JSON \"[...]\" "
                "DATASETS.TEST_IMAGES \"[...]\"",
                Error::Kind::kUsage);
  }
  CocoDatasetOptions options{
      .files = annotation_files(config.datasets, config.datasets.test_json,
                                config.datasets.test_images, "val"),
      .classes = config.datasets.classes,
      .filter_empty = false,
      .keep_segmentation = config.model.mask_on,
  };
  options.bad_image = config.dataloader.corrupt_images == "skip"
                          ? CocoDatasetOptions::BadImage::kSkip
                          : CocoDatasetOptions::BadImage::kStop;
  return options;
}

TransformPipeline::Options train_transform_options(const Config& config) {
  const InputConfig& input = config.input;
  const bool masks = config.model.mask_on;
  TransformPipeline::Options options{
      .min_sizes = input.min_size_train,
      .max_size = input.max_size_train,
      .sample_style = input.min_size_train_sampling == "range" ? ResizeShortestEdge::Style::kRange
                                                               : ResizeShortestEdge::Style::kChoice,
      .flip = flip_of(input.random_flip),
      .crop = input.crop.enabled,
      .crop_options = crop_options(input.crop),
      .masks = masks,
      .recompute_boxes = masks && (input.crop.enabled || input.large_scale_jitter.enabled ||
                                   input.mosaic.enabled || input.resize_train == "darknet"),
      .bitmasks = masks && input.mask_format == "bitmask",
      .interpolation = interpolation_of(input.interpolation),
  };
  if (const LargeScaleJitterConfig& jitter = input.large_scale_jitter; jitter.enabled) {
    options.large_scale_jitter = {.min_scale = jitter.min_scale,
                                  .max_scale = jitter.max_scale,
                                  .size = {jitter.size.at(0), jitter.size.at(1)}};
  }
  if (input.copy_paste.enabled) {
    options.copy_paste = {.probability = input.copy_paste.probability};
  }
  set_train_resize(config, options);
  set_augmentations(input, options);
  return options;
}

TransformPipeline::Options test_transform_options(const Config& config) {
  const InputConfig& input = config.input;
  const ImageSize size = test_size(config);
  const std::array<std::int64_t, 2> bounds = {size.height, size.width};
  TransformPipeline::Options options{
      .min_sizes = {input.min_size_test},
      .max_size = input.max_size_test,
      .flip = TransformPipeline::Flip::kNone,
      .interpolation = interpolation_of(input.interpolation),
  };
  if (input.resize_test == "range") {
    options.resize_range = {.low = bounds, .high = bounds};
  } else if (input.resize_test == "fixed") {
    options.fixed_size = size;
  } else if (input.resize_test == "letterbox") {
    options.letterbox = {.size = size};
  }
  return options;
}

ImageSize usual_image_size(const Config& config) {
  const InputConfig& input = config.input;
  return input.resize_test == "shortest_edge" ? ImageSize{input.min_size_test, input.max_size_test}
                                              : test_size(config);
}

TransformPipeline::Options no_transform_options() {
  return {.min_sizes = {0}, .flip = TransformPipeline::Flip::kNone};
}

CollateOptions collate_options(const Config& config) {
  CollateOptions options{
      .pixel_mean = three(config.model.pixel_mean),
      .pixel_std = three(config.model.pixel_std),
      .rgb = config.input.format == "RGB",
      .masks = config.model.mask_on,
  };
  if (!config.model.darknet.cfg.empty()) {
    options.size_divisibility = read_darknet_cfg(config.model.darknet.cfg).size_divisibility();
  }
  return options;
}

LoaderOptions train_loader_options(const Config& config) {
  const DataloaderConfig& loader = config.dataloader;
  return {
      .batch_size = config.solver.ims_per_batch,
      .threads = static_cast<int>(loader.num_workers),
      .prefetch = static_cast<int>(loader.prefetch),
      .seed = static_cast<std::uint64_t>(config.seed),
      .aspect_ratio_grouping = loader.aspect_ratio_grouping,
      .repeat_threshold =
          loader.sampler_train == "RepeatFactorTrainingSampler" ? loader.repeat_threshold : 0.0,
      .collate = collate_options(config),
  };
}

LoaderOptions test_loader_options(const Config& config) {
  return {
      .batch_size = 1,
      .threads = static_cast<int>(config.dataloader.num_workers),
      .prefetch = static_cast<int>(config.dataloader.prefetch),
      .collate = collate_options(config),
  };
}

}  // namespace detforge
