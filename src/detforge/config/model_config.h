#pragma once

#include "detforge/config/value_types.h"

/// MODEL.*: see config.h.
namespace detforge {

struct BackboneConfig {
  std::string name = "build_resnet_backbone";
  std::int64_t freeze_at = 2;
  bool checkpoint = false;  ///< ours
  bool operator==(const BackboneConfig&) const = default;
};

struct ResnetsConfig {
  std::int64_t depth = 50;
  Strings out_features = {"res4"};
  std::int64_t num_groups = 1;
  std::string norm = "FrozenBN";
  std::int64_t width_per_group = 64;
  bool stride_in_1x1 = true;
  std::int64_t res5_dilation = 1;
  std::int64_t res2_out_channels = 256;
  std::int64_t stem_out_channels = 64;
  std::vector<bool> deform_on_per_stage = {false, false, false, false};
  bool deform_modulated = false;
  std::int64_t deform_num_groups = 1;
  bool operator==(const ResnetsConfig&) const = default;
};

struct FpnConfig {
  Strings in_features;
  std::int64_t out_channels = 256;
  std::string norm;
  std::string fuse_type = "sum";
  bool operator==(const FpnConfig&) const = default;
};

struct ProposalGeneratorConfig {
  std::string name = "RPN";
  std::int64_t min_size = 0;
  bool operator==(const ProposalGeneratorConfig&) const = default;
};

struct AnchorGeneratorConfig {
  std::string name = "DefaultAnchorGenerator";
  std::vector<Numbers> sizes = {{32, 64, 128, 256, 512}};
  std::vector<Numbers> aspect_ratios = {{0.5, 1, 2}};
  double offset = 0;
  bool operator==(const AnchorGeneratorConfig&) const = default;
};

struct RpnConfig {
  std::string head_name = "StandardRPNHead";
  Strings in_features = {"res4"};
  std::int64_t boundary_thresh = -1;
  Numbers iou_thresholds = {0.3, 0.7};
  Integers iou_labels = {0, -1, 1};
  std::int64_t batch_size_per_image = 256;
  double positive_fraction = 0.5;
  std::string bbox_reg_loss_type = "smooth_l1";
  double bbox_reg_loss_weight = 1;
  Numbers bbox_reg_weights = {1, 1, 1, 1};
  double smooth_l1_beta = 0;
  double loss_weight = 1;
  std::int64_t pre_nms_topk_train = 12000;
  std::int64_t pre_nms_topk_test = 6000;
  std::int64_t post_nms_topk_train = 2000;
  std::int64_t post_nms_topk_test = 1000;
  double nms_thresh = 0.7;
  Integers conv_dims = {-1};
  bool operator==(const RpnConfig&) const = default;
};

struct RoiHeadsConfig {
  std::string name = "Res5ROIHeads";
  std::int64_t num_classes = 80;
  Strings in_features = {"res4"};
  Numbers iou_thresholds = {0.5};
  Integers iou_labels = {0, 1};
  std::int64_t batch_size_per_image = 512;
  double positive_fraction = 0.25;
  double score_thresh_test = 0.05;
  double nms_thresh_test = 0.5;
  bool proposal_append_gt = true;
  bool operator==(const RoiHeadsConfig&) const = default;
};

struct RoiBoxHeadConfig {
  std::string name;
  std::int64_t num_fc = 0;
  std::int64_t fc_dim = 1024;
  std::int64_t num_conv = 0;
  std::int64_t conv_dim = 256;
  std::string norm;
  std::int64_t pooler_resolution = 14;
  std::int64_t pooler_sampling_ratio = 0;
  std::string pooler_type = "ROIAlignV2";
  std::string bbox_reg_loss_type = "smooth_l1";
  double bbox_reg_loss_weight = 1;
  Numbers bbox_reg_weights = {10, 10, 5, 5};
  double smooth_l1_beta = 0;
  bool cls_agnostic_bbox_reg = false;
  bool train_on_pred_boxes = false;
  bool use_fed_loss = false;
  bool use_sigmoid_ce = false;
  bool operator==(const RoiBoxHeadConfig&) const = default;
};

struct RoiMaskHeadConfig {
  std::string name = "MaskRCNNConvUpsampleHead";
  std::int64_t num_conv = 0;
  std::int64_t conv_dim = 256;
  std::string norm;
  std::int64_t pooler_resolution = 14;
  std::int64_t pooler_sampling_ratio = 0;
  std::string pooler_type = "ROIAlignV2";
  bool cls_agnostic_mask = false;
  bool operator==(const RoiMaskHeadConfig&) const = default;
};

/// The backbone of META_ARCHITECTURE YOLOV3; mmdetection's options under our key names. Ours, as is
/// YoloConfig.
struct DarknetConfig {
  std::int64_t stem_out_channels = 32;
  Integers stage_blocks = {1, 2, 8, 8, 4};
  bool norm_eval = true;
  std::int64_t freeze_at = 0;
  std::string cfg;
  bool operator==(const DarknetConfig&) const = default;
};

struct YoloConfig {
  std::int64_t num_classes = 80;
  std::string norm = "BN";
  Integers neck_channels = {512, 256, 128};
  Integers head_channels = {1024, 512, 256};
  std::vector<Numbers> anchors = {
      {116, 90, 156, 198, 373, 326}, {30, 61, 62, 45, 59, 119}, {10, 13, 16, 30, 33, 23}};
  std::string assigner = "grid";
  double positive_iou_thresh = 0.5;
  double negative_iou_thresh = 0.5;
  double ignore_iou_thresh = 0.7;
  double cls_loss_weight = 1;
  double conf_loss_weight = 1;
  double xy_loss_weight = 2;
  double wh_loss_weight = 2;
  std::string selection_test = "class";
  double conf_thresh_test = 0.005;
  double score_thresh_test = 0.05;
  double nms_thresh_test = 0.45;
  std::int64_t pre_nms_topk_test = 1000;
  bool operator==(const YoloConfig&) const = default;
};

struct ModelConfig {
  std::string meta_architecture = "GeneralizedRCNN";
  std::string device = "cpu";  ///< Detectron2: "cuda"
  std::string weights;
  bool mask_on = false;
  bool keypoint_on = false;
  bool load_proposals = false;
  Numbers pixel_mean = {103.53, 116.28, 123.675};
  Numbers pixel_std = {1, 1, 1};
  BackboneConfig backbone;
  ResnetsConfig resnets;
  FpnConfig fpn;
  ProposalGeneratorConfig proposal_generator;
  AnchorGeneratorConfig anchor_generator;
  RpnConfig rpn;
  RoiHeadsConfig roi_heads;
  RoiBoxHeadConfig roi_box_head;
  RoiMaskHeadConfig roi_mask_head;
  DarknetConfig darknet;
  YoloConfig yolo;
  bool operator==(const ModelConfig&) const = default;
};

}  // namespace detforge
