// MODEL.ROI_*: the second stage.

#include "detforge/config/schema.h"

#define KEY DETFORGE_CONFIG_KEY

namespace detforge::config {
namespace {

const Strings kHeadNorms = {"", "BN", "GN", "SyncBN"};
const Strings kPoolers = {"ROIAlign", "ROIAlignV2"};

std::vector<Key> roi_heads_keys() {
  return {
      {KEY(model.roi_heads.name),
       "kind of second stage",
       {.choices = {"Res5ROIHeads", "StandardROIHeads"}, .available = {"\"StandardROIHeads\""}}},
      {KEY(model.roi_heads.num_classes), "object classes, without background", {.min = 1}},
      {KEY(model.roi_heads.in_features),
       "feature maps that boxes are pooled from",
       {.choices = {"res4", "p2", "p3", "p4", "p5"}, .min_length = 1}},
      {KEY(model.roi_heads.iou_thresholds),
       "IoU limits between the labels of IOU_LABELS",
       {.min = 0, .max = 1, .min_length = 1}},
      {KEY(model.roi_heads.iou_labels),
       "label of a proposal in each IoU range: 0 background, -1 ignored, 1 object",
       {.min = -1, .max = 1, .min_length = 2}},
      {KEY(model.roi_heads.batch_size_per_image),
       "proposals sampled per image for the losses",
       {.min = 1}},
      {KEY(model.roi_heads.positive_fraction),
       "largest share of positives among the sampled proposals",
       {.min = 0, .max = 1}},
      {KEY(model.roi_heads.score_thresh_test),
       "detections with a score of at most this are dropped",
       {.min = 0, .max = 1}},
      {KEY(model.roi_heads.nms_thresh_test),
       "a detection with more IoU than this with a better one of its class is dropped",
       {.min = 0, .max = 1}},
      {KEY(model.roi_heads.proposal_append_gt),
       "adds the target boxes to the proposals in training"},
  };
}

std::vector<Key> box_head_keys() {
  return {
      {KEY(model.roi_box_head.name), "kind of box head", {.choices = {"", "FastRCNNConvFCHead"}}},
      {KEY(model.roi_box_head.num_fc), "fully connected layers", {.min = 0}},
      {KEY(model.roi_box_head.fc_dim), "their width", {.min = 1}},
      {KEY(model.roi_box_head.num_conv), "3x3 convolutions before them", {.min = 0}},
      {KEY(model.roi_box_head.conv_dim), "their output channels", {.min = 1}},
      {KEY(model.roi_box_head.norm),
       "normalisation after those convolutions",
       {.choices = kHeadNorms}},
      {KEY(model.roi_box_head.pooler_resolution), "side of the pooled grid in cells", {.min = 1}},
      {KEY(model.roi_box_head.pooler_sampling_ratio),
       "samples per cell side; 0 = as many as feature cells",
       {.min = 0}},
      {KEY(model.roi_box_head.pooler_type),
       "ROIAlignV2 is shifted by half a pixel (right), ROIAlign is not (old models)",
       {.choices = kPoolers}},
      {KEY(model.roi_box_head.bbox_reg_loss_type),
       "localisation loss",
       {.choices = {"smooth_l1", "giou", "diou", "ciou"}}},
      {KEY(model.roi_box_head.bbox_reg_loss_weight), "factor of the localisation loss", {.min = 0}},
      {KEY(model.roi_box_head.bbox_reg_weights),
       "scale of the deltas (dx, dy, dw, dh)",
       {.min = 0, .above_min = true, .min_length = 4, .max_length = 4}},
      {KEY(model.roi_box_head.smooth_l1_beta),
       "where smooth L1 turns linear; 0 = plain L1",
       {.min = 0}},
      {KEY(model.roi_box_head.cls_agnostic_bbox_reg),
       "one box for all classes instead of one each"},
      {KEY(model.roi_box_head.train_on_pred_boxes),
       "later heads train on this head's boxes instead of the proposals",
       {.available = {"false"}}},
      {KEY(model.roi_box_head.use_fed_loss),
       "federated loss over a sample of classes (LVIS)",
       {.available = {"false"}}},
      {KEY(model.roi_box_head.use_sigmoid_ce),
       "one sigmoid per class instead of softmax",
       {.available = {"false"}}},
  };
}

std::vector<Key> mask_head_keys() {
  return {
      {KEY(model.roi_mask_head.name),
       "kind of mask head",
       {.choices = {"MaskRCNNConvUpsampleHead"}}},
      {KEY(model.roi_mask_head.num_conv), "3x3 convolutions before the upsampling", {.min = 0}},
      {KEY(model.roi_mask_head.conv_dim), "their output channels", {.min = 1}},
      {KEY(model.roi_mask_head.norm), "normalisation after them", {.choices = kHeadNorms}},
      {KEY(model.roi_mask_head.pooler_resolution), "side of the pooled grid in cells", {.min = 1}},
      {KEY(model.roi_mask_head.pooler_sampling_ratio),
       "samples per cell side; 0 = as many as feature cells",
       {.min = 0}},
      {KEY(model.roi_mask_head.pooler_type), "as in ROI_BOX_HEAD", {.choices = kPoolers}},
      {KEY(model.roi_mask_head.cls_agnostic_mask), "one mask for all classes instead of one each"},
  };
}

}  // namespace

std::vector<Key> head_keys() {
  std::vector<Key> keys = roi_heads_keys();
  for (const auto& part : {box_head_keys(), mask_head_keys()}) {
    keys.insert(keys.end(), part.begin(), part.end());
  }
  return keys;
}

}  // namespace detforge::config
