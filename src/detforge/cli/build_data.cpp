#include <array>

#include "detforge/cli/build.h"
#include "detforge/core/error.h"

namespace detforge {
namespace {

std::vector<CocoFiles> coco_files(const Strings& jsons, const Strings& images, const char* key) {
  if (jsons.empty()) {
    throw Error(std::string("the config names no dataset in DATASETS.") + key,
                "give --data COCO_ROOT, or set DATASETS." + std::string(key) + "_JSON and _IMAGES",
                Error::Kind::kUsage);
  }
  std::vector<CocoFiles> files;
  for (std::size_t i = 0; i < jsons.size(); ++i) {
    files.push_back({.json = jsons[i], .image_root = images.at(i)});
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

}  // namespace

CocoDatasetOptions train_dataset_options(const Config& config) {
  return {
      .files = coco_files(config.datasets.train_json, config.datasets.train_images, "TRAIN"),
      .classes = config.datasets.classes,
      .filter_empty = config.dataloader.filter_empty_annotations,
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
      .files = coco_files(config.datasets.test_json, config.datasets.test_images, "TEST"),
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
      .recompute_boxes = masks && (input.crop.enabled || input.large_scale_jitter.enabled),
      .bitmasks = masks && input.mask_format == "bitmask",
  };
  if (const LargeScaleJitterConfig& jitter = input.large_scale_jitter; jitter.enabled) {
    options.large_scale_jitter = {.min_scale = jitter.min_scale,
                                  .max_scale = jitter.max_scale,
                                  .size = {jitter.size.at(0), jitter.size.at(1)}};
  }
  if (input.copy_paste.enabled) {
    options.copy_paste = {.probability = input.copy_paste.probability};
  }
  return options;
}

TransformPipeline::Options test_transform_options(const InputConfig& input) {
  return {
      .min_sizes = {input.min_size_test},
      .max_size = input.max_size_test,
      .flip = TransformPipeline::Flip::kNone,
  };
}

TransformPipeline::Options no_transform_options() {
  return {.min_sizes = {0}, .flip = TransformPipeline::Flip::kNone};
}

CollateOptions collate_options(const Config& config) {
  return {
      .pixel_mean = three(config.model.pixel_mean),
      .pixel_std = three(config.model.pixel_std),
      .rgb = config.input.format == "RGB",
      .masks = config.model.mask_on,
  };
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
