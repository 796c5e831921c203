#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

#include <fmt/ranges.h>

#include "detforge/cli/build.h"
#include "detforge/config/architecture.h"
#include "detforge/core/error.h"
#include "detforge/core/log.h"
#include "detforge/eval/test_time_augmentation.h"
#include "detforge/models/darknet/darknet_detector.h"
#include "detforge/models/rcnn/faster_rcnn.h"
#include "detforge/models/yolo/yolov3.h"

// The detector as one nested expression per part: reading this file replaces reading the config.
namespace detforge {
namespace {

NormType norm_type(const std::string& name) {
  if (name.empty()) {
    return NormType::kNone;
  }
  if (name == "FrozenBN") {
    return NormType::kFrozenBn;
  }
  if (name == "BN") {
    return NormType::kBn;
  }
  if (name == "SyncBN") {
    return NormType::kSyncBn;
  }
  return NormType::kGn;  // the schema admits no other
}

BoxLossType box_loss_type(const std::string& name) {
  if (name == "smooth_l1") {
    return BoxLossType::kSmoothL1;
  }
  if (name == "giou") {
    return BoxLossType::kGiou;
  }
  return name == "diou" ? BoxLossType::kDiou : BoxLossType::kCiou;
}

std::array<double, 4> four(const Numbers& numbers) {
  return {numbers.at(0), numbers.at(1), numbers.at(2), numbers.at(3)};
}

ResNetOptions resnet_options(const ModelConfig& model) {
  return {
      .depth = static_cast<int>(model.resnets.depth),
      .norm = norm_type(model.resnets.norm),
      .stem_out_channels = model.resnets.stem_out_channels,
      .res2_out_channels = model.resnets.res2_out_channels,
      .num_groups = model.resnets.num_groups,
      .width_per_group = model.resnets.width_per_group,
      .stride_in_1x1 = model.resnets.stride_in_1x1,
      .res5_dilation = static_cast<int>(model.resnets.res5_dilation),
      .checkpoint = model.backbone.checkpoint,
      .freeze_at = static_cast<int>(model.backbone.freeze_at),
      .out_features = model.resnets.out_features,
  };
}

FpnOptions fpn_options(const FpnConfig& fpn) {
  return {
      .in_features = fpn.in_features,
      .out_channels = fpn.out_channels,
      .norm = norm_type(fpn.norm),
      .fuse = fpn.fuse_type == "avg" ? FpnFuse::kAverage : FpnFuse::kSum,
  };
}

ProposalOptions proposal_options(const ModelConfig& model, bool training) {
  return {
      .pre_nms_top_k = training ? model.rpn.pre_nms_topk_train : model.rpn.pre_nms_topk_test,
      .post_nms_top_k = training ? model.rpn.post_nms_topk_train : model.rpn.post_nms_topk_test,
      .nms_threshold = model.rpn.nms_thresh,
      .min_size = static_cast<double>(model.proposal_generator.min_size),
      .reject_non_finite = training,
  };
}

RpnOptions rpn_options(const ModelConfig& model) {
  const RpnConfig& rpn = model.rpn;
  return {
      .in_features = rpn.in_features,
      .anchors = {.sizes = model.anchor_generator.sizes,
                  .aspect_ratios = model.anchor_generator.aspect_ratios,
                  .offset = model.anchor_generator.offset},
      .conv_dims = rpn.conv_dims,
      .matcher = {.iou_thresholds = rpn.iou_thresholds,
                  .labels = rpn.iou_labels,
                  .allow_low_quality = true},
      .boundary_threshold = static_cast<double>(rpn.boundary_thresh),
      .sampling = {.batch_size = rpn.batch_size_per_image,
                   .positive_fraction = rpn.positive_fraction},
      .box_weights = four(rpn.bbox_reg_weights),
      .box_loss = {.type = box_loss_type(rpn.bbox_reg_loss_type),
                   .smooth_l1_beta = rpn.smooth_l1_beta},
      .loss_weight = rpn.loss_weight,
      .box_loss_weight = rpn.bbox_reg_loss_weight,
      .train = proposal_options(model, true),
      .test = proposal_options(model, false),
  };
}

std::optional<MaskHeadOptions> mask_head_options(const ModelConfig& model) {
  if (!model.mask_on) {
    return std::nullopt;
  }
  const RoiMaskHeadConfig& mask = model.roi_mask_head;
  return MaskHeadOptions{
      .pooler = {.resolution = mask.pooler_resolution,
                 .sampling_ratio = static_cast<int>(mask.pooler_sampling_ratio),
                 .aligned = mask.pooler_type == "ROIAlignV2"},
      .num_conv = mask.num_conv,
      .conv_dim = mask.conv_dim,
      .norm = norm_type(mask.norm),
      .class_agnostic = mask.cls_agnostic_mask,
  };
}

RoiHeadsOptions roi_heads_options(const Config& config) {
  const RoiHeadsConfig& heads = config.model.roi_heads;
  const RoiBoxHeadConfig& box = config.model.roi_box_head;
  return {
      .in_features = heads.in_features,
      .append_gt = heads.proposal_append_gt,
      .matcher = {.iou_thresholds = heads.iou_thresholds,
                  .labels = heads.iou_labels,
                  .allow_low_quality = false},
      .batch_size_per_image = heads.batch_size_per_image,
      .positive_fraction = heads.positive_fraction,
      .pooler = {.resolution = box.pooler_resolution,
                 .sampling_ratio = static_cast<int>(box.pooler_sampling_ratio),
                 .aligned = box.pooler_type == "ROIAlignV2"},
      .box_head = {.num_conv = box.num_conv,
                   .conv_dim = box.conv_dim,
                   .norm = norm_type(box.norm),
                   .num_fc = box.num_fc,
                   .fc_dim = box.fc_dim},
      .output = {.num_classes = heads.num_classes,
                 .class_agnostic_boxes = box.cls_agnostic_bbox_reg,
                 .box_weights = four(box.bbox_reg_weights),
                 .box_loss = {.type = box_loss_type(box.bbox_reg_loss_type),
                              .smooth_l1_beta = box.smooth_l1_beta},
                 .box_loss_weight = box.bbox_reg_loss_weight,
                 .score_threshold = heads.score_thresh_test,
                 .nms_threshold = heads.nms_thresh_test,
                 .detections_per_image = config.test.detections_per_image},
      .mask_head = mask_head_options(config.model),
  };
}

Darknet53Options darknet53_options(const ModelConfig& model) {
  const DarknetConfig& darknet = model.darknet;
  Darknet53Options options{
      .stem_channels = darknet.stem_out_channels,
      .norm = darknet.norm_eval ? NormType::kEvalBn : norm_type(model.yolo.norm),
      .checkpoint = model.backbone.checkpoint,
      .frozen_stages = static_cast<int>(darknet.freeze_at),
  };
  std::transform(darknet.stage_blocks.begin(), darknet.stage_blocks.end(), options.blocks.begin(),
                 [](std::int64_t blocks) { return static_cast<int>(blocks); });
  return options;
}

std::vector<YoloScale> yolo_scales(const YoloConfig& yolo) {
  std::vector<YoloScale> scales = yolov3_scales();
  for (std::size_t i = 0; i < scales.size(); ++i) {
    const Numbers& flat = yolo.anchors.at(i);
    scales[i].anchors.clear();
    for (std::size_t j = 0; j + 1 < flat.size(); j += 2) {
      scales[i].anchors.push_back({flat[j], flat[j + 1]});
    }
  }
  return scales;
}

YoloLossOptions yolo_loss_options(const YoloConfig& yolo) {
  return {
      .assigner = yolo.assigner == "darknet" ? YoloAssigner::kDarknet : YoloAssigner::kGrid,
      .grid = {.positive_iou = yolo.positive_iou_thresh, .negative_iou = yolo.negative_iou_thresh},
      .darknet = {.ignore_iou = yolo.ignore_iou_thresh},
      .cls_weight = yolo.cls_loss_weight,
      .conf_weight = yolo.conf_loss_weight,
      .xy_weight = yolo.xy_loss_weight,
      .wh_weight = yolo.wh_loss_weight,
  };
}

YoloOutputOptions yolo_output_options(const Config& config) {
  const YoloConfig& yolo = config.model.yolo;
  YoloSelection selection = YoloSelection::kClassProbability;
  if (yolo.selection_test == "conf") {
    selection = YoloSelection::kConf;
  } else if (yolo.selection_test == "product") {
    selection = YoloSelection::kProduct;
  }
  return {
      .selection = selection,
      .conf_threshold = yolo.conf_thresh_test,
      .score_threshold = yolo.score_thresh_test,
      .nms_pre = yolo.pre_nms_topk_test,
      .nms_threshold = yolo.nms_thresh_test,
      .detections_per_image = config.test.detections_per_image,
  };
}

YoloV3Options yolov3_options(const Config& config) {
  const YoloConfig& yolo = config.model.yolo;
  return {
      .darknet = darknet53_options(config.model),
      .neck = {.widths = yolo.neck_channels, .norm = norm_type(yolo.norm)},
      .head = {.widths = yolo.head_channels, .norm = norm_type(yolo.norm)},
      .layout = {.scales = yolo_scales(yolo), .num_classes = yolo.num_classes},
      .loss = yolo_loss_options(yolo),
      .output = yolo_output_options(config),
  };
}

/// The file's own schedule, augmentation and loss weights are the config's matter.
void warn_of_unused(const DarknetCfg& cfg, const std::string& file) {
  if (!cfg.unused.empty()) {
    log::warn("{}: the recipe decides what these settings are about, they have no effect: {}", file,
              fmt::join(cfg.unused, ", "));
  }
}

DarknetDetectorOptions darknet_options(const Config& config) {
  DarknetCfg cfg = read_darknet_cfg(config.model.darknet.cfg);
  warn_of_unused(cfg, config.model.darknet.cfg);
  return {
      .cfg = std::move(cfg),
      .loss = yolo_loss_options(config.model.yolo),
      .output = yolo_output_options(config),
  };
}

}  // namespace

FasterRcnnOptions faster_rcnn_options(const Config& config) {
  return {
      .resnet = resnet_options(config.model),
      .fpn = fpn_options(config.model.fpn),
      .rpn = rpn_options(config.model),
      .roi_heads = roi_heads_options(config),
  };
}

std::int64_t class_count(const Config& config) {
  return config.model.meta_architecture == "Darknet"
             ? read_darknet_cfg(config.model.darknet.cfg).num_classes
             : num_classes(config.model);
}

std::shared_ptr<Detector> build_detector(const Config& config) {
  const auto seed = static_cast<std::uint64_t>(config.seed);
  if (config.model.meta_architecture == "YOLOV3") {
    return std::make_shared<YoloV3>(yolov3_options(config), seed);
  }
  if (config.model.meta_architecture == "Darknet") {
    return std::make_shared<DarknetDetector>(darknet_options(config), seed);
  }
  return std::make_shared<FasterRcnn>(faster_rcnn_options(config), seed);
}

std::shared_ptr<Detector> with_test_time_augmentation(const Config& config,
                                                      std::shared_ptr<Detector> detector) {
  if (config.input.resize_test != "shortest_edge" || config.input.interpolation != "pillow") {
    log::warn(
        "TEST.AUG resizes by the shortest edge to TEST.AUG.MIN_SIZES, as Pillow does: "
        "INPUT.RESIZE_TEST {} and INPUT.INTERPOLATION {} do not count",
        config.input.resize_test, config.input.interpolation);
  }
  return std::make_shared<AugmentedDetector>(
      std::move(detector),
      TestTimeAugmentationOptions{.min_sizes = config.test.aug.min_sizes,
                                  .max_size = config.test.aug.max_size,
                                  .flip = config.test.aug.flip,
                                  .nms_threshold = is_rcnn(config.model)
                                                       ? config.model.roi_heads.nms_thresh_test
                                                       : config.model.yolo.nms_thresh_test,
                                  .detections_per_image = config.test.detections_per_image,
                                  .collate = collate_options(config)});
}

}  // namespace detforge
