#pragma once

#include "detforge/config/value_types.h"

/// INPUT.*, DATASETS.*, DATALOADER.*: see config.h.
namespace detforge {

struct CropConfig {
  bool enabled = false;
  std::string type = "relative_range";
  Numbers size = {0.9, 0.9};
  bool operator==(const CropConfig&) const = default;
};

struct LargeScaleJitterConfig {  ///< ours: Detectron2 has it in its Python recipes only
  bool enabled = false;
  double min_scale = 0.1;
  double max_scale = 2.0;
  Integers size = {1024, 1024};
  bool operator==(const LargeScaleJitterConfig&) const = default;
};

struct CopyPasteConfig {  ///< ours
  bool enabled = false;
  double probability = 1;
  bool operator==(const CopyPasteConfig&) const = default;
};

/// Ours, like all that follow up to InputConfig: augmentations of mmdetection and Darknet.
struct PhotometricDistortionConfig {
  bool enabled = false;
  double brightness = 32;
  Numbers contrast = {0.5, 1.5};
  Numbers saturation = {0.5, 1.5};
  double hue = 18;
  bool operator==(const PhotometricDistortionConfig&) const = default;
};

struct ExpandConfig {
  bool enabled = false;
  double probability = 0.5;
  Numbers ratio = {1, 2};
  std::int64_t fill = 0;
  bool operator==(const ExpandConfig&) const = default;
};

struct MinIouCropConfig {
  bool enabled = false;
  Numbers min_ious = {0.4, 0.5, 0.6, 0.7, 0.8, 0.9};
  double min_crop_size = 0.3;
  bool operator==(const MinIouCropConfig&) const = default;
};

struct MosaicConfig {
  bool enabled = false;
  double probability = 1;
  Integers size = {640, 640};
  Numbers scale = {0.5, 1.5};
  bool operator==(const MosaicConfig&) const = default;
};

struct MixupConfig {
  bool enabled = false;
  double probability = 1;
  double alpha = 1.5;
  bool operator==(const MixupConfig&) const = default;
};

struct MultiScaleConfig {
  bool enabled = false;
  Integers sizes = {320, 352, 384, 416, 448, 480, 512, 544, 576, 608};
  std::int64_t every_batches = 10;
  bool operator==(const MultiScaleConfig&) const = default;
};

struct JitterConfig {
  double jitter = 0.3;
  Numbers scale = {0.25, 2};
  bool operator==(const JitterConfig&) const = default;
};

struct InputConfig {
  std::string resize_train = "shortest_edge";  ///< ours, like the six below
  std::string resize_test = "shortest_edge";
  Integers range_low = {320, 320};
  Integers range_high = {608, 608};
  Integers size_train;  ///< empty: the .cfg file's, or 416 x 416
  Integers size_test;
  std::string interpolation = "pillow";
  Integers min_size_train = {800};
  std::string min_size_train_sampling = "choice";
  std::int64_t max_size_train = 1333;
  std::int64_t min_size_test = 800;
  std::int64_t max_size_test = 1333;
  std::string random_flip = "horizontal";
  std::string format = "BGR";
  std::string mask_format = "polygon";
  Integers fix_shape;  ///< Ascend: every batch padded to this (height, width); empty = off
  CropConfig crop;
  LargeScaleJitterConfig large_scale_jitter;
  CopyPasteConfig copy_paste;
  PhotometricDistortionConfig photometric_distortion;
  ExpandConfig expand;
  MinIouCropConfig min_iou_crop;
  MosaicConfig mosaic;
  MixupConfig mixup;
  MultiScaleConfig multi_scale;
  JitterConfig jitter;
  bool operator==(const InputConfig&) const = default;
};

struct DatasetsConfig {
  Strings train;
  Strings test;
  std::string format = "coco";  ///< ours, like all below: datasets by path instead of by name
  Strings train_json;
  Strings train_images;
  Strings test_json;
  Strings test_images;
  Strings classes;
  bool operator==(const DatasetsConfig&) const = default;
};

struct DataloaderConfig {
  std::int64_t num_workers = 4;
  std::int64_t prefetch = 4;            ///< ours
  std::string corrupt_images = "stop";  ///< ours
  bool aspect_ratio_grouping = true;
  std::string sampler_train = "TrainingSampler";
  double repeat_threshold = 0;
  bool repeat_sqrt = true;
  bool filter_empty_annotations = true;
  std::int64_t min_side = 0;  ///< ours
  bool operator==(const DataloaderConfig&) const = default;
};

}  // namespace detforge
