// MODEL.*: what is built before the region heads. Docs are shown by `detforge config --describe`.

#include "detforge/config/schema.h"

#define KEY DETFORGE_CONFIG_KEY

namespace detforge::config {
namespace {

const Strings kStages = {"stem", "res2", "res3", "res4", "res5"};
const Strings kNorms = {"", "BN", "FrozenBN", "GN", "SyncBN"};

std::vector<Key> architecture_keys() {
  return {
      {KEY(version), "version of the key names", {.choices = {"2"}}},
      {KEY(model.meta_architecture),
       "the detector: Faster or Mask R-CNN, YOLOv3, or the network of Darknet's .cfg file "
       "(DARKNET.CFG)",
       {.choices = {"GeneralizedRCNN", "YOLOV3", "Darknet"}}},
      {KEY(model.device),
       "where the network runs: cpu, cuda, cuda:1, npu, npu:1",
       {.available = {"\"cpu\""}}},
      {KEY(model.weights),
       "weights to start from: Detectron2 .pkl, .pth of ours or of torchvision; empty = from "
       "scratch"},
      {KEY(model.mask_on), "predict a mask for each box (Mask R-CNN)"},
      {KEY(model.keypoint_on), "predict keypoints for each box", {.available = {"false"}}},
      {KEY(model.load_proposals),
       "read proposals from files instead of computing them",
       {.available = {"false"}}},
      {KEY(model.pixel_mean),
       "subtracted from each channel, in the order of INPUT.FORMAT, grey levels 0 to 255",
       {.min_length = 3, .max_length = 3}},
      {KEY(model.pixel_std),
       "divides each channel after the mean; 1 for weights in Detectron2's Caffe2 style",
       {.min = 0, .above_min = true, .min_length = 3, .max_length = 3}},
  };
}

std::vector<Key> backbone_keys() {
  return {
      {KEY(model.backbone.name),
       "builder of the backbone",
       {.choices = {"build_resnet_backbone", "build_resnet_fpn_backbone"},
        .available = {"\"build_resnet_fpn_backbone\""}}},
      {KEY(model.backbone.freeze_at),
       "freezes the first stages: 0 none, 1 the stem, 2 stem and res2, ..., 5 all",
       {.min = 0, .max = 5}},
      {KEY(model.backbone.checkpoint),
       "backward keeps the input of each stage of a ResNet or Darknet-53 alone and computes the "
       "stage again: less memory for one more forward (our key)"},
      {KEY(model.resnets.depth),
       "ResNet variant; 18 and 34 need RES2_OUT_CHANNELS 64",
       {.choices = {"18", "34", "50", "101", "152"}}},
      {KEY(model.resnets.out_features), "stages handed on", {.choices = kStages, .min_length = 1}},
      {KEY(model.resnets.num_groups), "groups of the 3x3 convolutions (ResNeXt: 32)", {.min = 1}},
      {KEY(model.resnets.norm),
       "normalisation: FrozenBN (fixed, for pretrained weights), BN, GN, SyncBN (BN in a run of "
       "one "
       "process), or empty for none",
       {.choices = kNorms}},
      {KEY(model.resnets.width_per_group),
       "bottleneck width per group at res2; doubles at each stage",
       {.min = 1}},
      {KEY(model.resnets.stride_in_1x1),
       "stride in the first 1x1 convolution (Caffe2 weights) instead of the 3x3 (torchvision)"},
      {KEY(model.resnets.res5_dilation),
       "dilation of res5; 2 keeps its stride at 16",
       {.choices = {"1", "2"}}},
      {KEY(model.resnets.res2_out_channels),
       "output channels of res2; doubles at each stage",
       {.min = 1}},
      {KEY(model.resnets.stem_out_channels), "output channels of the 7x7 stem", {.min = 1}},
      {KEY(model.resnets.deform_on_per_stage),
       "deformable convolutions in res2 to res5",
       {.min_length = 4, .max_length = 4, .available = {"[false, false, false, false]"}}},
      {KEY(model.resnets.deform_modulated),
       "deformable convolutions with modulation (version 2)",
       {.available = {"false"}}},
      {KEY(model.resnets.deform_num_groups),
       "offset groups of deformable convolutions",
       {.min = 1, .available = {"1"}}},
      {KEY(model.fpn.in_features), "backbone stages that feed the pyramid", {.choices = kStages}},
      {KEY(model.fpn.out_channels), "channels of every pyramid level", {.min = 1}},
      {KEY(model.fpn.norm), "normalisation after each pyramid convolution", {.choices = kNorms}},
      {KEY(model.fpn.fuse_type),
       "how the upper level and the lateral are joined",
       {.choices = {"sum", "avg"}}},
  };
}

std::vector<Key> proposal_keys() {
  return {
      {KEY(model.proposal_generator.name), "where proposals come from", {.choices = {"RPN"}}},
      {KEY(model.proposal_generator.min_size),
       "proposals with a side of at most this many pixels are dropped",
       {.min = 0}},
      {KEY(model.anchor_generator.name),
       "kind of anchors",
       {.choices = {"DefaultAnchorGenerator"}}},
      {KEY(model.anchor_generator.sizes),
       "anchor sizes (square root of area) in pixels: one list per feature map, or one for all",
       {.min = 0, .above_min = true, .min_length = 1}},
      {KEY(model.anchor_generator.aspect_ratios),
       "anchor height / width: one list per feature map, or one for all",
       {.min = 0, .above_min = true, .min_length = 1}},
      {KEY(model.anchor_generator.offset),
       "shift of anchor centres in strides; 0 puts the first at the image corner",
       {.min = 0, .max = 0.999999}},
  };
}

std::vector<Key> rpn_keys() {
  return {
      {KEY(model.rpn.head_name), "kind of RPN head", {.choices = {"StandardRPNHead"}}},
      {KEY(model.rpn.in_features),
       "feature maps with anchors",
       {.choices = {"res4", "p2", "p3", "p4", "p5", "p6"}, .min_length = 1}},
      {KEY(model.rpn.boundary_thresh),
       "ignores anchors this far outside the image in training; -1 uses all",
       {.min = -1}},
      {KEY(model.rpn.iou_thresholds),
       "IoU limits between the labels of IOU_LABELS",
       {.min = 0, .max = 1, .min_length = 1}},
      {KEY(model.rpn.iou_labels),
       "label of an anchor in each IoU range: 0 background, -1 ignored, 1 object",
       {.min = -1, .max = 1, .min_length = 2}},
      {KEY(model.rpn.batch_size_per_image), "anchors sampled per image for the losses", {.min = 1}},
      {KEY(model.rpn.positive_fraction),
       "largest share of positives among the sampled anchors",
       {.min = 0, .max = 1}},
      {KEY(model.rpn.bbox_reg_loss_type),
       "localisation loss",
       {.choices = {"smooth_l1", "giou", "diou", "ciou"}}},
      {KEY(model.rpn.bbox_reg_loss_weight), "factor of the localisation loss", {.min = 0}},
      {KEY(model.rpn.bbox_reg_weights),
       "scale of the deltas (dx, dy, dw, dh)",
       {.min = 0, .above_min = true, .min_length = 4, .max_length = 4}},
      {KEY(model.rpn.smooth_l1_beta), "where smooth L1 turns linear; 0 = plain L1", {.min = 0}},
      {KEY(model.rpn.loss_weight),
       "factor of the objectness loss, and of the localisation loss",
       {.min = 0}},
      {KEY(model.rpn.pre_nms_topk_train),
       "proposals kept per level before NMS, training",
       {.min = 1}},
      {KEY(model.rpn.pre_nms_topk_test),
       "proposals kept per level before NMS, testing",
       {.min = 1}},
      {KEY(model.rpn.post_nms_topk_train),
       "proposals kept per image after NMS, training",
       {.min = 1}},
      {KEY(model.rpn.post_nms_topk_test),
       "proposals kept per image after NMS, testing",
       {.min = 1}},
      {KEY(model.rpn.nms_thresh),
       "a proposal with more IoU than this with a better one is dropped",
       {.min = 0, .max = 1}},
      {KEY(model.rpn.conv_dims),
       "output channels of the head's 3x3 convolutions; -1 = as its input",
       {.min = -1, .min_length = 1}},
  };
}

}  // namespace

std::vector<Key> model_keys() {
  std::vector<Key> keys = architecture_keys();
  for (const auto& part : {backbone_keys(), proposal_keys(), rpn_keys()}) {
    keys.insert(keys.end(), part.begin(), part.end());
  }
  return keys;
}

}  // namespace detforge::config
