#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

/// The config file's keys as plain structs: SOLVER.BASE_LR is `config.solver.base_lr`. Names,
/// nesting and defaults are Detectron2's (`detectron2/config/defaults.py`), so that its recipes
/// load unchanged; the few keys of our own and of the Ascend scripts are marked. What a key means
/// and which values it takes is said once, in schema_*.cpp, and printed by `detforge config
/// --describe`. Only config/ and cli/ include this file: components take their own Options structs.
namespace detforge {

using Strings = std::vector<std::string>;
using Integers = std::vector<std::int64_t>;
using Numbers = std::vector<double>;

/// A number, or "dynamic" (adapts itself during training).
struct LossScale {
  bool dynamic = false;
  double value = 64;  ///< unused when dynamic
  bool operator==(const LossScale&) const = default;
};

struct BackboneConfig {
  std::string name = "build_resnet_backbone";
  std::int64_t freeze_at = 2;
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
  bool operator==(const ModelConfig&) const = default;
};

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

struct InputConfig {
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
  bool operator==(const InputConfig&) const = default;
};

struct DatasetsConfig {
  Strings train;
  Strings test;
  Strings train_json;  ///< ours, like the four below: COCO files by path instead of by name
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
  bool operator==(const DataloaderConfig&) const = default;
};

struct ClipGradientsConfig {
  bool enabled = false;
  std::string clip_type = "value";
  double clip_value = 1;
  double norm_type = 2;
  bool operator==(const ClipGradientsConfig&) const = default;
};

struct SolverAmpConfig {
  bool enabled = false;
  bool operator==(const SolverAmpConfig&) const = default;
};

struct SolverConfig {
  std::int64_t ims_per_batch = 16;
  std::int64_t reference_world_size = 0;
  std::int64_t max_iter = 40000;
  std::string lr_scheduler_name = "WarmupMultiStepLR";
  double base_lr = 0.001;
  double base_lr_end = 0;
  Integers steps = {30000};
  double gamma = 0.1;
  std::int64_t num_decays = 3;
  bool rescale_interval = false;
  double warmup_factor = 0.001;
  std::int64_t warmup_iters = 1000;
  std::string warmup_method = "linear";
  double momentum = 0.9;
  bool nesterov = false;
  double weight_decay = 0.0001;
  double weight_decay_norm = 0;
  std::optional<double> weight_decay_bias;  ///< none = weight_decay
  double bias_lr_factor = 1;
  std::int64_t checkpoint_period = 5000;
  std::int64_t checkpoints_keep = 3;  ///< ours
  std::int64_t nonfinite_skip = 0;    ///< ours
  ClipGradientsConfig clip_gradients;
  SolverAmpConfig amp;
  bool operator==(const SolverConfig&) const = default;
};

struct TestAugConfig {
  bool enabled = false;
  Integers min_sizes = {400, 500, 600, 700, 800, 900, 1000, 1100, 1200};
  std::int64_t max_size = 4000;
  bool flip = true;
  bool operator==(const TestAugConfig&) const = default;
};

struct PreciseBnConfig {
  bool enabled = false;
  std::int64_t num_iter = 200;
  bool operator==(const PreciseBnConfig&) const = default;
};

struct TestConfig {
  std::int64_t eval_period = 0;
  std::int64_t detections_per_image = 100;
  std::int64_t max_dets = 100;  ///< ours
  Strings expected_results;
  TestAugConfig aug;
  PreciseBnConfig precise_bn;
  bool operator==(const TestConfig&) const = default;
};

struct Config {
  std::int64_t version = 2;
  ModelConfig model;
  InputConfig input;
  DatasetsConfig datasets;
  DataloaderConfig dataloader;
  SolverConfig solver;
  TestConfig test;
  std::string output_dir = "./output";
  std::int64_t seed = -1;
  std::int64_t vis_period = 0;
  bool cudnn_benchmark = false;
  std::string float32_precision;
  std::int64_t amp = 0;  ///< Ascend, like the two below
  std::string opt_level = "O0";
  LossScale loss_scale_value;
  bool operator==(const Config&) const = default;
};

}  // namespace detforge
