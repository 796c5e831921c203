// INPUT.*, DATASETS.*, DATALOADER.*

#include "detforge/config/schema.h"

#define KEY DETFORGE_CONFIG_KEY

namespace detforge::config {
namespace {

const Limits kHeightWidth = {.min = 1, .min_length = 2, .max_length = 2};
const Limits kRange = {.min = 0, .min_length = 2, .max_length = 2};
const Limits kProbability = {.min = 0, .max = 1};

std::vector<Key> resize_keys() {
  return {
      {KEY(input.resize_train),
       "shortest_edge: MIN_SIZE_TRAIN and MAX_SIZE_TRAIN; range: as large as fits into a random "
       "size between RANGE_LOW and RANGE_HIGH (mmdetection); fixed: stretched to SIZE_TRAIN; "
       "letterbox: fitted into SIZE_TRAIN; darknet: that with JITTER (our key)",
       {.choices = {"shortest_edge", "range", "fixed", "letterbox", "darknet"}}},
      {KEY(input.resize_test),
       "shortest_edge: MIN_SIZE_TEST and MAX_SIZE_TEST; range: as large as fits into SIZE_TEST; "
       "fixed: stretched to SIZE_TEST; letterbox: in the middle of it (our key)",
       {.choices = {"shortest_edge", "range", "fixed", "letterbox"}}},
      {KEY(input.range_low), "smallest bounds of the two edges (RESIZE_TRAIN range)", kHeightWidth},
      {KEY(input.range_high), "largest bounds of the two edges", kHeightWidth},
      {KEY(input.size_train),
       "(height, width) of training images; empty = that of DARKNET.CFG, or 416 x 416",
       {.min = 1, .max_length = 2}},
      {KEY(input.size_test),
       "(height, width) of test images, or their bounds; empty = SIZE_TRAIN",
       {.min = 1, .max_length = 2}},
      {KEY(input.interpolation),
       "bilinear resizing as Pillow does it (antialiased) or as OpenCV (our key)",
       {.choices = {"pillow", "opencv"}}},
  };
}

std::vector<Key> colour_and_crop_keys() {
  return {
      {KEY(input.photometric_distortion.enabled), "random colours as in SSD and YOLO (our key)"},
      {KEY(input.photometric_distortion.brightness),
       "largest shift of all values, of 255",
       {.min = 0}},
      {KEY(input.photometric_distortion.contrast), "least and largest factor", kRange},
      {KEY(input.photometric_distortion.saturation), "least and largest factor", kRange},
      {KEY(input.photometric_distortion.hue), "largest turn in degrees", {.min = 0, .max = 360}},
      {KEY(input.expand.enabled), "puts images on a larger canvas: smaller objects (our key)"},
      {KEY(input.expand.probability), "share of images", kProbability},
      {KEY(input.expand.ratio),
       "least and largest factor of the canvas' sides",
       {.min = 1, .min_length = 2, .max_length = 2}},
      {KEY(input.expand.fill), "value of the canvas", {.min = 0, .max = 255}},
      {KEY(input.min_iou_crop.enabled), "SSD's random crop around objects (our key)"},
      {KEY(input.min_iou_crop.min_ious), "IoUs that boxes must keep with the crop", kProbability},
      {KEY(input.min_iou_crop.min_crop_size),
       "least part of the image's sides",
       {.min = 0, .max = 1, .above_min = true}},
  };
}

std::vector<Key> mixing_keys() {
  return {
      {KEY(input.mosaic.enabled), "four images around one point, of SIZE (our key)"},
      {KEY(input.mosaic.probability), "share of images", kProbability},
      {KEY(input.mosaic.size),
       "(height, width), unless RESIZE_TRAIN fixed, letterbox or darknet says the size",
       kHeightWidth},
      {KEY(input.mosaic.scale), "least and largest scale of the four images", kRange},
      {KEY(input.mixup.enabled), "blends two images (our key)"},
      {KEY(input.mixup.probability), "share of images", kProbability},
      {KEY(input.mixup.alpha),
       "of the Beta distribution of the weights",
       {.min = 0, .above_min = true}},
      {KEY(input.multi_scale.enabled),
       "draws the size of RESIZE_TRAIN fixed, letterbox or darknet from SIZES (our key)"},
      {KEY(input.multi_scale.sizes), "square sizes", {.min = 1, .min_length = 1}},
      {KEY(input.multi_scale.every_batches),
       "batches between new sizes; 0 = every image for itself",
       {.min = 0}},
      {KEY(input.jitter.jitter), "change of the sides (RESIZE_TRAIN darknet)", kProbability},
      {KEY(input.jitter.scale), "least and largest size relative to SIZE_TRAIN", kRange},
  };
}

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
      {KEY(datasets.format),
       "what TRAIN_JSON and TEST_JSON name: coco: instance files; yolo: data.yaml, obj.data, an "
       "image list or a folder of images; voc: a VOCdevkit year, an image set or a folder of XML "
       "files (our key)",
       {.choices = {"coco", "yolo", "voc"}}},
      {KEY(datasets.train_json), "annotations to train on; used instead of TRAIN"},
      {KEY(datasets.train_images),
       "image folder of each TRAIN_JSON; may be left out for yolo and voc"},
      {KEY(datasets.test_json), "annotations to evaluate on; used instead of TEST"},
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
      {KEY(dataloader.min_side),
       "leaves images with a shorter side below this out of training (our key)",
       {.min = 0}},
  };
}

}  // namespace

std::vector<Key> data_keys() {
  std::vector<Key> keys = resize_keys();
  for (const auto& part :
       {input_keys(), colour_and_crop_keys(), mixing_keys(), datasets_keys(), loader_keys()}) {
    keys.insert(keys.end(), part.begin(), part.end());
  }
  return keys;
}

}  // namespace detforge::config
