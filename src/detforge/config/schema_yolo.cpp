// MODEL.DARKNET.*, MODEL.YOLO.*: keys of our own, since Detectron2 has no YOLO; the defaults are
// mmdetection's.

#include "detforge/config/schema.h"

#define KEY DETFORGE_CONFIG_KEY

namespace detforge::config {
namespace {

std::vector<Key> darknet_keys() {
  return {
      {KEY(model.darknet.stem_out_channels),
       "channels of the first convolution; they double with each stage. Darknet-53: 32",
       {.min = 1}},
      {KEY(model.darknet.stage_blocks),
       "residual blocks of the five stages. Darknet-53: [1, 2, 8, 8, 4]",
       {.min = 0, .min_length = 5, .max_length = 5}},
      {KEY(model.darknet.norm_eval),
       "backbone norms use their running statistics while training (for pretrained weights)"},
      {KEY(model.darknet.freeze_at),
       "freezes the first stages: 0 none, 1 the first convolution, 2 also the first stage, ... 6 "
       "all",
       {.min = 0, .max = 6}},
      {KEY(model.darknet.cfg),
       "Darknet's .cfg file that describes the whole network (META_ARCHITECTURE Darknet)"},
  };
}

std::vector<Key> detector_keys() {
  return {
      {KEY(model.yolo.num_classes), "object classes", {.min = 1}},
      {KEY(model.yolo.norm),
       "norms of neck, head and, unless NORM_EVAL, backbone: BN (of each rank's images) or SyncBN "
       "(of all ranks')",
       {.choices = {"BN", "SyncBN"}}},
      {KEY(model.yolo.neck_channels),
       "width of the neck at strides 32, 16 and 8",
       {.min = 1, .min_length = 3, .max_length = 3}},
      {KEY(model.yolo.head_channels),
       "width of the convolution before each prediction, at strides 32, 16 and 8",
       {.min = 1, .min_length = 3, .max_length = 3}},
      {KEY(model.yolo.anchors),
       "width and height of each anchor in pixels, flat, a list for each of strides 32, 16 and 8",
       {.min = 0, .above_min = true, .min_length = 3}},
      {KEY(model.yolo.assigner),
       "grid: mmdetection's, all anchors that fit an object in its cell; darknet: the one that "
       "fits "
       "best",
       {.choices = {"grid", "darknet"}}},
      {KEY(model.yolo.positive_iou_thresh),
       "anchors of an object's cell above this IoU learn it (grid)",
       {.min = 0, .max = 1}},
      {KEY(model.yolo.negative_iou_thresh),
       "anchors up to this IoU learn that nothing is there (grid)",
       {.min = 0, .max = 1}},
      {KEY(model.yolo.ignore_iou_thresh),
       "predictions above this IoU with an object are not taught that nothing is there (darknet)",
       {.min = 0, .max = 1}},
      {KEY(model.yolo.cls_loss_weight), "of loss_cls", {.min = 0}},
      {KEY(model.yolo.conf_loss_weight), "of loss_conf", {.min = 0}},
      {KEY(model.yolo.xy_loss_weight), "of loss_xy", {.min = 0}},
      {KEY(model.yolo.wh_loss_weight), "of loss_wh", {.min = 0}},
      {KEY(model.yolo.selection_test),
       "which predictions reach NMS: class: class probability above SCORE_THRESH_TEST (mmdetection "
       "3); conf: the most confident PRE_NMS_TOPK_TEST of each map first (mmdetection 2); product: "
       "confidence times class above SCORE_THRESH_TEST (Darknet)",
       {.choices = {"class", "conf", "product"}}},
      {KEY(model.yolo.conf_thresh_test),
       "predictions of lower confidence are no detections",
       {.min = 0, .max = 1}},
      {KEY(model.yolo.score_thresh_test),
       "class probability, or with SELECTION_TEST product the score, that a detection needs",
       {.min = 0, .max = 1}},
      {KEY(model.yolo.nms_thresh_test), "IoU above which NMS drops a box", {.min = 0, .max = 1}},
      {KEY(model.yolo.pre_nms_topk_test),
       "predictions kept before NMS, in all; with SELECTION_TEST conf, of each map",
       {.min = 1}},
  };
}

}  // namespace

std::vector<Key> yolo_keys() {
  std::vector<Key> keys = darknet_keys();
  const std::vector<Key> detector = detector_keys();
  keys.insert(keys.end(), detector.begin(), detector.end());
  return keys;
}

}  // namespace detforge::config
