#include "detforge/config/validate.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "detforge/config/architecture.h"
#include "detforge/config/schema.h"
#include "detforge/config/value.h"
#include "detforge/core/error.h"

namespace detforge::config {
namespace {

using PlaceOf = std::function<std::string(const std::string&)>;

class Checker {
 public:
  explicit Checker(const PlaceOf& place_of) : place_of_(place_of) {}

  /// `keys` are those whose values do not fit; the message says where each was set.
  void require(bool condition,
               const Strings& keys,
               const std::string& what,
               const std::string& fix) const {
    if (condition) {
      return;
    }
    Strings places;
    for (const auto& key : keys) {
      const std::string place = place_of_(key);
      places.push_back(key + (place.empty() ? " by default" : " in " + place));
    }
    Error error(what, fix, Error::Kind::kUsage);
    error.add_where(fmt::format("{}", fmt::join(places, ", ")));
    throw error;
  }

 private:
  const PlaceOf& place_of_;
};

template <typename T>
bool is_increasing(const std::vector<T>& values) {
  return std::adjacent_find(values.begin(), values.end(), std::greater_equal<>()) == values.end();
}

void check_available(const Config& config, const Checker& check) {
  for (const Key& key : schema()) {
    if (!is_used(config.model, key.name)) {
      continue;
    }
    const Strings& available = key.limits.available;
    const std::string value = format_value(config, key);
    check.require(available.empty() ||
                      std::find(available.begin(), available.end(), value) != available.end(),
                  {key.name}, key.name + " " + value + " is not available yet",
                  fmt::format("use {}", fmt::join(available, " or ")));
  }
}

void check_iou_labels(const std::string& section,
                      const Numbers& thresholds,
                      const Integers& labels,
                      const Checker& check) {
  check.require(labels.size() == thresholds.size() + 1,
                {section + ".IOU_LABELS", section + ".IOU_THRESHOLDS"},
                fmt::format("{0}.IOU_LABELS has {1} values but {0}.IOU_THRESHOLDS has {2}", section,
                            labels.size(), thresholds.size()),
                "give one label more than thresholds");
  check.require(is_increasing(thresholds), {section + ".IOU_THRESHOLDS"},
                section + ".IOU_THRESHOLDS must increase", "sort them");
}

/// One list for each feature map, or one for all.
void check_per_level(const std::string& key,
                     std::size_t lists,
                     std::size_t levels,
                     const Checker& check) {
  check.require(lists == 1 || lists == levels, {key, "MODEL.RPN.IN_FEATURES"},
                fmt::format("{} has {} lists for {} feature maps (MODEL.RPN.IN_FEATURES)", key,
                            lists, levels),
                fmt::format("give 1 or {} lists", levels));
}

void check_group_norm(const std::string& norm_key,
                      const std::string& norm,
                      const std::string& channels_key,
                      std::int64_t channels,
                      const Checker& check) {
  check.require(norm != "GN" || channels % 32 == 0, {norm_key, channels_key},
                fmt::format("{} GN has 32 groups, which do not divide the {} channels of {}",
                            norm_key, channels, channels_key),
                "use a multiple of 32 channels");
}

void check_resnet(const ModelConfig& model, const Checker& check) {
  const ResnetsConfig& resnet = model.resnets;
  if (resnet.depth < 50) {
    check.require(resnet.res2_out_channels == 64,
                  {"MODEL.RESNETS.DEPTH", "MODEL.RESNETS.RES2_OUT_CHANNELS"},
                  fmt::format("ResNet-{} needs MODEL.RESNETS.RES2_OUT_CHANNELS 64, not {}",
                              resnet.depth, resnet.res2_out_channels),
                  "set it to 64");
    check.require(
        resnet.num_groups == 1 && resnet.res5_dilation == 1,
        {"MODEL.RESNETS.DEPTH", "MODEL.RESNETS.NUM_GROUPS", "MODEL.RESNETS.RES5_DILATION"},
        fmt::format("ResNet-{} has no groups and no dilation", resnet.depth),
        "set MODEL.RESNETS.NUM_GROUPS and RES5_DILATION to 1");
  }
  check_group_norm("MODEL.RESNETS.NORM", resnet.norm, "MODEL.RESNETS.STEM_OUT_CHANNELS",
                   resnet.stem_out_channels, check);
  check_group_norm("MODEL.RESNETS.NORM", resnet.norm, "MODEL.RESNETS.WIDTH_PER_GROUP",
                   resnet.num_groups * resnet.width_per_group, check);
  check_group_norm("MODEL.RESNETS.NORM", resnet.norm, "MODEL.RESNETS.RES2_OUT_CHANNELS",
                   resnet.res2_out_channels, check);
  check_group_norm("MODEL.FPN.NORM", model.fpn.norm, "MODEL.FPN.OUT_CHANNELS",
                   model.fpn.out_channels, check);
  check.require(!model.fpn.in_features.empty(), {"MODEL.FPN.IN_FEATURES"},
                "MODEL.FPN.IN_FEATURES is empty",
                "set _BASE_ to Base-RCNN-FPN.yaml, or give [res2, res3, res4, res5]");
  for (const auto& stage : model.fpn.in_features) {
    check.require(std::count(resnet.out_features.begin(), resnet.out_features.end(), stage) == 1,
                  {"MODEL.FPN.IN_FEATURES", "MODEL.RESNETS.OUT_FEATURES"},
                  "MODEL.FPN.IN_FEATURES has " + stage + ", which MODEL.RESNETS.OUT_FEATURES lacks",
                  "make the two lists equal");
  }
}

void check_dilation(const ModelConfig& model, const Checker& check) {
  check.require(
      model.resnets.res5_dilation == 1 || model.fpn.in_features.empty(),
      {"MODEL.RESNETS.RES5_DILATION", "MODEL.FPN.IN_FEATURES"},
      "MODEL.RESNETS.RES5_DILATION 2 keeps res5 at res4's size, which a feature pyramid cannot use",
      "set MODEL.RESNETS.RES5_DILATION 1");
}

void check_cfg(const ModelConfig& model, const Checker& check) {
  const bool from_cfg = model.meta_architecture == "Darknet";
  check.require(from_cfg != model.darknet.cfg.empty(),
                {"MODEL.DARKNET.CFG", "MODEL.META_ARCHITECTURE"},
                from_cfg ? "MODEL.META_ARCHITECTURE Darknet builds the network of a .cfg file, but "
                           "MODEL.DARKNET.CFG names none"
                         : "MODEL.DARKNET.CFG is only read with MODEL.META_ARCHITECTURE Darknet",
                from_cfg ? "set MODEL.DARKNET.CFG" : "set MODEL.META_ARCHITECTURE Darknet");
  check.require(!from_cfg || !model.backbone.checkpoint,
                {"MODEL.BACKBONE.CHECKPOINT", "MODEL.META_ARCHITECTURE"},
                "a network of a .cfg file has no stages that MODEL.BACKBONE.CHECKPOINT could "
                "compute again",
                "set MODEL.BACKBONE.CHECKPOINT false");
}

void check_yolo(const ModelConfig& model, const Checker& check) {
  check.require(!model.mask_on, {"MODEL.MASK_ON", "MODEL.META_ARCHITECTURE"},
                "MODEL.META_ARCHITECTURE " + model.meta_architecture + " predicts no masks",
                "set MODEL.MASK_ON false, or use GeneralizedRCNN");
  check.require(model.yolo.anchors.size() == model.yolo.neck_channels.size(),
                {"MODEL.YOLO.ANCHORS"},
                fmt::format("MODEL.YOLO.ANCHORS has {} lists for the maps of strides 32, 16 and 8",
                            model.yolo.anchors.size()),
                "give a list for each");
  for (const Numbers& anchors : model.yolo.anchors) {
    check.require(
        anchors.size() % 2 == 0, {"MODEL.YOLO.ANCHORS"},
        fmt::format("a list of MODEL.YOLO.ANCHORS has {} numbers, but an anchor is a pair",
                    anchors.size()),
        "give width and height of each anchor");
  }
  check.require(model.yolo.negative_iou_thresh <= model.yolo.positive_iou_thresh,
                {"MODEL.YOLO.NEGATIVE_IOU_THRESH", "MODEL.YOLO.POSITIVE_IOU_THRESH"},
                "MODEL.YOLO.NEGATIVE_IOU_THRESH is above POSITIVE_IOU_THRESH", "exchange them");
}

void check_heads(const ModelConfig& model, const Checker& check) {
  check_iou_labels("MODEL.RPN", model.rpn.iou_thresholds, model.rpn.iou_labels, check);
  check_iou_labels("MODEL.ROI_HEADS", model.roi_heads.iou_thresholds, model.roi_heads.iou_labels,
                   check);
  const std::size_t levels = model.rpn.in_features.size();
  check_per_level("MODEL.ANCHOR_GENERATOR.SIZES", model.anchor_generator.sizes.size(), levels,
                  check);
  check_per_level("MODEL.ANCHOR_GENERATOR.ASPECT_RATIOS",
                  model.anchor_generator.aspect_ratios.size(), levels, check);
  check.require(std::count(model.rpn.conv_dims.begin(), model.rpn.conv_dims.end(), 0) == 0,
                {"MODEL.RPN.CONV_DIMS"}, "MODEL.RPN.CONV_DIMS has a 0",
                "give channels, or -1 for as many as the input has");
  check.require(!model.roi_box_head.name.empty() &&
                    model.roi_box_head.num_fc + model.roi_box_head.num_conv > 0,
                {"MODEL.ROI_BOX_HEAD.NAME", "MODEL.ROI_BOX_HEAD.NUM_FC"},
                "the box head has no layers",
                "set _BASE_ to Base-RCNN-FPN.yaml, or NAME FastRCNNConvFCHead and NUM_FC 2");
  if (model.roi_box_head.num_conv > 0) {
    check_group_norm("MODEL.ROI_BOX_HEAD.NORM", model.roi_box_head.norm,
                     "MODEL.ROI_BOX_HEAD.CONV_DIM", model.roi_box_head.conv_dim, check);
  }
  if (model.mask_on && model.roi_mask_head.num_conv > 0) {
    check_group_norm("MODEL.ROI_MASK_HEAD.NORM", model.roi_mask_head.norm,
                     "MODEL.ROI_MASK_HEAD.CONV_DIM", model.roi_mask_head.conv_dim, check);
  }
}

void check_data(const Config& config, const Checker& check) {
  const DatasetsConfig& sets = config.datasets;
  const auto paired = [&](const std::string& name, const Strings& jsons, const Strings& folders) {
    check.require(
        jsons.size() == folders.size() || (folders.empty() && sets.format != "coco"),
        {"DATASETS." + name + "_JSON", "DATASETS." + name + "_IMAGES"},
        fmt::format("DATASETS.{0}_JSON has {1} files but DATASETS.{0}_IMAGES has {2} folders", name,
                    jsons.size(), folders.size()),
        "give one image folder for each file");
  };
  paired("TRAIN", sets.train_json, sets.train_images);
  paired("TEST", sets.test_json, sets.test_images);
  const auto classes = static_cast<std::int64_t>(sets.classes.size());
  const std::string key = num_classes_key(config.model);
  check.require(classes == 0 || key.empty() || classes == num_classes(config.model),
                {"DATASETS.CLASSES", key},
                fmt::format("DATASETS.CLASSES names {} classes but {} is {}", classes, key,
                            num_classes(config.model)),
                "make them agree");
  Strings sorted = sets.classes;
  std::sort(sorted.begin(), sorted.end());
  check.require(std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end(),
                {"DATASETS.CLASSES"}, "DATASETS.CLASSES names a class twice", "remove one");
}

bool has_batch_norm(const ModelConfig& model) {
  if (!is_rcnn(model)) {
    return true;  // neck and head of a YOLO
  }
  const auto is_bn = [](const std::string& norm) { return norm == "BN" || norm == "SyncBN"; };
  return is_bn(model.resnets.norm) || is_bn(model.fpn.norm) || is_bn(model.roi_box_head.norm) ||
         (model.mask_on && is_bn(model.roi_mask_head.norm));
}

void check_solver(const SolverConfig& solver, const Checker& check) {
  check.require(solver.accumulation_steps <= solver.ims_per_batch,
                {"SOLVER.ACCUMULATION_STEPS", "SOLVER.IMS_PER_BATCH"},
                fmt::format("SOLVER.ACCUMULATION_STEPS {} is more than the {} images of a step "
                            "(SOLVER.IMS_PER_BATCH)",
                            solver.accumulation_steps, solver.ims_per_batch),
                "use fewer");
  check.require(is_increasing(solver.steps_epochs), {"SOLVER.STEPS_EPOCHS"},
                "SOLVER.STEPS_EPOCHS must increase", "sort them and remove doubles");
  check.require(is_increasing(solver.steps), {"SOLVER.STEPS"}, "SOLVER.STEPS must increase",
                "sort them and remove doubles");
  check.require(solver.base_lr_end <= solver.base_lr, {"SOLVER.BASE_LR_END", "SOLVER.BASE_LR"},
                fmt::format("SOLVER.BASE_LR_END {} is above SOLVER.BASE_LR {}", solver.base_lr_end,
                            solver.base_lr),
                "exchange them, or set BASE_LR_END 0");
  check.require(!solver.nesterov || solver.momentum > 0, {"SOLVER.NESTEROV", "SOLVER.MOMENTUM"},
                "SOLVER.NESTEROV needs a SOLVER.MOMENTUM above 0", "set SOLVER.MOMENTUM 0.9");
}

/// Gradients that are computed image by image and added in one order.
void check_deterministic(const Config& config, const Checker& check) {
  const bool rcnn = is_rcnn(config.model);
  check.require(!config.deterministic || !has_batch_norm(config.model),
                {"DETERMINISTIC", rcnn ? "MODEL.RESNETS.NORM" : "MODEL.META_ARCHITECTURE"},
                "DETERMINISTIC cannot be used with norms that take statistics of several images",
                rcnn ? "use GN or FrozenBN" : "it is for R-CNNs; YOLOs have BN");
  check.require(!config.deterministic || config.solver.grad_compression == "none",
                {"DETERMINISTIC", "SOLVER.GRAD_COMPRESSION"},
                "DETERMINISTIC does not go with SOLVER.GRAD_COMPRESSION", "use one of them");
  check.require(!config.deterministic || config.solver.accumulation_steps == 1,
                {"DETERMINISTIC", "SOLVER.ACCUMULATION_STEPS"},
                "DETERMINISTIC computes image by image already", "set SOLVER.ACCUMULATION_STEPS 1");
  const bool half_weights =
      config.amp == 1 && (config.opt_level == "O2" || config.opt_level == "O3");
  check.require(!config.deterministic || !half_weights, {"DETERMINISTIC", "OPT_LEVEL"},
                "DETERMINISTIC needs gradients in f32, and OPT_LEVEL " + config.opt_level +
                    " has them in 16 bits",
                "use OPT_LEVEL O1");
}

void check_input(const InputConfig& input, const Checker& check) {
  const Integers& sizes = input.min_size_train;
  check.require(
      input.min_size_train_sampling != "range" || (sizes.size() == 2 && sizes[0] <= sizes[1]),
      {"INPUT.MIN_SIZE_TRAIN_SAMPLING", "INPUT.MIN_SIZE_TRAIN"},
      "with MIN_SIZE_TRAIN_SAMPLING range, INPUT.MIN_SIZE_TRAIN must be two values, the smaller "
      "first",
      "for example [640, 800]");
  const bool relative = input.crop.type.starts_with("relative");
  const bool whole = std::all_of(input.crop.size.begin(), input.crop.size.end(),
                                 [](double side) { return side == std::floor(side); });
  const bool fraction = std::all_of(input.crop.size.begin(), input.crop.size.end(),
                                    [](double side) { return side <= 1; });
  check.require(relative ? fraction : whole, {"INPUT.CROP.TYPE", "INPUT.CROP.SIZE"},
                "INPUT.CROP.SIZE does not fit INPUT.CROP.TYPE " + input.crop.type,
                relative ? "give parts of the image, at most 1" : "give whole pixels");
  check.require(input.crop.type != "absolute_range" || input.crop.size[0] <= input.crop.size[1],
                {"INPUT.CROP.TYPE", "INPUT.CROP.SIZE"},
                "INPUT.CROP.SIZE of an absolute_range is (least, most), but the first is larger",
                "exchange them");
}

/// "least and largest".
void check_order(const std::string& key, const Numbers& range, const Checker& check) {
  check.require(range[0] <= range[1], {key}, key + " is (least, largest), but the first is larger",
                "exchange them");
}

void check_augmentations(const InputConfig& input, const Checker& check) {
  check_order("INPUT.PHOTOMETRIC_DISTORTION.CONTRAST", input.photometric_distortion.contrast,
              check);
  check_order("INPUT.PHOTOMETRIC_DISTORTION.SATURATION", input.photometric_distortion.saturation,
              check);
  check_order("INPUT.EXPAND.RATIO", input.expand.ratio, check);
  check_order("INPUT.MOSAIC.SCALE", input.mosaic.scale, check);
  check_order("INPUT.JITTER.SCALE", input.jitter.scale, check);
  check.require(
      input.range_low[0] <= input.range_high[0] && input.range_low[1] <= input.range_high[1],
      {"INPUT.RANGE_LOW", "INPUT.RANGE_HIGH"}, "INPUT.RANGE_LOW is above INPUT.RANGE_HIGH",
      "exchange them");
  for (const auto& [key, size] : {std::pair("INPUT.SIZE_TRAIN", &input.size_train),
                                  std::pair("INPUT.SIZE_TEST", &input.size_test)}) {
    check.require(size->size() != 1, {key},
                  std::string(key) + " is (height, width), not one number",
                  "give both, or [] for the model's own size");
  }
  const std::string& resize = input.resize_train;
  check.require(!input.multi_scale.enabled || resize == "fixed" || resize == "letterbox" ||
                    resize == "darknet",
                {"INPUT.MULTI_SCALE.ENABLED", "INPUT.RESIZE_TRAIN"},
                "INPUT.MULTI_SCALE chooses a square size, which INPUT.RESIZE_TRAIN " + resize +
                    " does not have",
                "set INPUT.RESIZE_TRAIN fixed, letterbox or darknet");
  check.require(!input.large_scale_jitter.enabled || resize == "shortest_edge",
                {"INPUT.LARGE_SCALE_JITTER.ENABLED", "INPUT.RESIZE_TRAIN"},
                "INPUT.LARGE_SCALE_JITTER resizes by itself and cannot be joined with "
                "INPUT.RESIZE_TRAIN " +
                    resize,
                "turn it off, or set INPUT.RESIZE_TRAIN shortest_edge");
}

void check_mask_inputs(const InputConfig& input, bool mask_on, const Checker& check) {
  const LargeScaleJitterConfig& jitter = input.large_scale_jitter;
  check.require(jitter.min_scale <= jitter.max_scale,
                {"INPUT.LARGE_SCALE_JITTER.MIN_SCALE", "INPUT.LARGE_SCALE_JITTER.MAX_SCALE"},
                "INPUT.LARGE_SCALE_JITTER.MIN_SCALE is above MAX_SCALE", "exchange them");
  check.require(!jitter.enabled || !input.crop.enabled,
                {"INPUT.LARGE_SCALE_JITTER.ENABLED", "INPUT.CROP.ENABLED"},
                "INPUT.LARGE_SCALE_JITTER crops by itself and cannot be joined with INPUT.CROP",
                "turn one of them off");
  check.require(!input.copy_paste.enabled || mask_on, {"INPUT.COPY_PASTE.ENABLED", "MODEL.MASK_ON"},
                "INPUT.COPY_PASTE cuts objects out by their masks, which MODEL.MASK_ON false does "
                "not load",
                "set MODEL.MASK_ON true, or INPUT.COPY_PASTE.ENABLED false");
}

}  // namespace

void validate(const Config& config, const PlaceOf& place_of) {
  const Checker check(place_of);
  check_available(config, check);
  check_cfg(config.model, check);
  if (is_rcnn(config.model)) {
    check_resnet(config.model, check);
    check_dilation(config.model, check);
    check_heads(config.model, check);
  } else {
    check_yolo(config.model, check);
  }
  check_data(config, check);
  check_input(config.input, check);
  check_augmentations(config.input, check);
  check_mask_inputs(config.input, config.model.mask_on, check);
  check_solver(config.solver, check);
  check_deterministic(config, check);
  check.require(config.model_ema.decay < 1, {"MODEL_EMA.DECAY"},
                "MODEL_EMA.DECAY 1 keeps the first weights for ever", "use 0.9998 or so");
}

}  // namespace detforge::config
