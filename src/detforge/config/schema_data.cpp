// INPUT.*, DATASETS.*, DATALOADER.*

#include "detforge/config/schema.h"

#define KEY DETFORGE_CONFIG_KEY

namespace detforge::config {
namespace {

std::vector<Key> input_keys() {
  return {
      {KEY(input.min_size_train),
       "short side of training images in pixels: drawn from this list",
       {.min = 1, .min_length = 1}},
      {KEY(input.min_size_train_sampling),
       "choice: one of the list; range: any integer between its two values",
       {.choices = {"choice", "range"}}},
      {KEY(input.max_size_train), "longest side of training images", {.min = 1}},
      {KEY(input.min_size_test), "short side when testing; 0 = do not resize", {.min = 0}},
      {KEY(input.max_size_test), "longest side when testing", {.min = 1}},
      {KEY(input.random_flip),
       "flips half of the training images",
       {.choices = {"none", "horizontal", "vertical"}}},
      {KEY(input.format),
       "channel order that the network sees; must fit MODEL.WEIGHTS and PIXEL_MEAN",
       {.choices = {"BGR", "RGB"}}},
      {KEY(input.mask_format),
       "polygon: masks stay polygons until they are cut to a proposal; bitmask: they are drawn at "
       "the size of the network's input first. RLE masks are bitmaps either way",
       {.choices = {"polygon", "bitmask"}}},
      {KEY(input.fix_shape),
       "pads every batch to this (height, width); empty = off (key of the Ascend scripts)",
       {.min = 1, .max_length = 2, .available = {"[]"}}},
      {KEY(input.crop.enabled), "crops training images at random before resizing"},
      {KEY(input.crop.type),
       "relative: that part of the image; relative_range: from it to all; absolute: pixels; "
       "absolute_range",
       {.choices = {"relative_range", "relative", "absolute", "absolute_range"}}},
      {KEY(input.crop.size),
       "(height, width) of the crop, as said by TYPE; absolute_range: (least, most) pixels of a "
       "side",
       {.min = 0, .above_min = true, .min_length = 2, .max_length = 2}},
      {KEY(input.large_scale_jitter.enabled),
       "scales by a factor between MIN_SCALE and MAX_SCALE and cuts or pads to SIZE, instead of "
       "MIN_SIZE_TRAIN (our key)"},
      {KEY(input.large_scale_jitter.min_scale), "least factor", {.min = 0, .above_min = true}},
      {KEY(input.large_scale_jitter.max_scale), "largest factor", {.min = 0, .above_min = true}},
      {KEY(input.large_scale_jitter.size),
       "(height, width) of every image afterwards",
       {.min = 1, .min_length = 2, .max_length = 2}},
      {KEY(input.copy_paste.enabled),
       "pastes objects of another image on top; needs masks (our key)"},
      {KEY(input.copy_paste.probability),
       "share of the images that get objects of another",
       {.min = 0, .max = 1}},
  };
}

std::vector<Key> datasets_keys() {
  return {
      {KEY(datasets.train),
       "datasets to train on, by name (coco_2017_train), found below --data or "
       "$DETECTRON2_DATASETS/coco"},
      {KEY(datasets.test), "datasets to evaluate on, by name (coco_2017_val)"},
      {KEY(datasets.train_json), "COCO instance files to train on; used instead of TRAIN"},
      {KEY(datasets.train_images), "image folder of each TRAIN_JSON"},
      {KEY(datasets.test_json), "COCO instance files to evaluate on; used instead of TEST"},
      {KEY(datasets.test_images), "image folder of each TEST_JSON"},
      {KEY(datasets.classes), "names of the categories used, in order; empty = all in the file"},
  };
}

std::vector<Key> loader_keys() {
  return {
      {KEY(dataloader.num_workers),
       "threads that read and prepare images; 0 = in the training thread; no influence on results",
       {.min = 0, .max = 256}},
      {KEY(dataloader.prefetch),
       "batches kept ready; bounds the loader's memory",
       {.min = 1, .max = 1024}},
      {KEY(dataloader.corrupt_images),
       "an image that cannot be decoded: stop the run, or skip it and count it",
       {.choices = {"stop", "skip"}}},
      {KEY(dataloader.aspect_ratio_grouping), "batches hold only wide or only tall images"},
      {KEY(dataloader.sampler_train),
       "order of training images",
       {.choices = {"TrainingSampler", "RepeatFactorTrainingSampler"}}},
      {KEY(dataloader.repeat_threshold),
       "classes in a smaller share of images than this are repeated (RepeatFactorTrainingSampler)",
       {.min = 0, .max = 1}},
      {KEY(dataloader.repeat_sqrt),
       "repeats by the square root of threshold / share",
       {.available = {"true"}}},
      {KEY(dataloader.filter_empty_annotations), "leaves images without boxes out of training"},
  };
}

}  // namespace

std::vector<Key> data_keys() {
  std::vector<Key> keys = input_keys();
  for (const auto& part : {datasets_keys(), loader_keys()}) {
    keys.insert(keys.end(), part.begin(), part.end());
  }
  return keys;
}

}  // namespace detforge::config
