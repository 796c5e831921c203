#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "detforge/config/data_config.h"
#include "detforge/config/model_config.h"
#include "detforge/config/value_types.h"

/// The config file's keys as plain structs: SOLVER.BASE_LR is `config.solver.base_lr`. Names,
/// nesting and defaults are Detectron2's (`detectron2/config/defaults.py`), so that its recipes
/// load unchanged; the few keys of our own and of the Ascend scripts are marked. What a key means
/// and which values it takes is said once, in schema_*.cpp, and printed by `detforge config
/// --describe`. Only config/ and cli/ include this file: components take their own Options structs.
namespace detforge {

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
  std::int64_t reference_ims_per_batch = 0;  ///< ours
  std::int64_t accumulation_steps = 1;       ///< ours
  double max_epochs = 0;  ///< ours, like the two below: lengths in passes over the data
  Numbers steps_epochs;
  double checkpoint_period_epochs = 0;
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
  std::string grad_compression = "none";  ///< ours, like the next
  std::int64_t powersgd_rank = 4;
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
  double eval_period_epochs = 0;  ///< ours
  std::int64_t detections_per_image = 100;
  std::int64_t max_dets = 100;  ///< ours
  Strings expected_results;
  TestAugConfig aug;
  PreciseBnConfig precise_bn;
  bool operator==(const TestConfig&) const = default;
};

struct ModelEmaConfig {  ///< names of Detectron2's projects; TAU is ours
  bool enabled = false;
  double decay = 0.9998;
  double tau = 2000;
  bool operator==(const ModelEmaConfig&) const = default;
};

struct DistributedConfig {  ///< ours
  double timeout_s = 300;
  double bucket_mb = 8;
  std::int64_t check_period = 0;
  bool operator==(const DistributedConfig&) const = default;
};

struct Config {
  std::int64_t version = 2;
  ModelConfig model;
  InputConfig input;
  DatasetsConfig datasets;
  DataloaderConfig dataloader;
  SolverConfig solver;
  TestConfig test;
  ModelEmaConfig model_ema;
  DistributedConfig distributed;
  bool deterministic = false;  ///< ours
  std::string output_dir = "./output";
  std::int64_t seed = -1;
  std::int64_t vis_period = 0;
  bool cudnn_benchmark = false;
  std::string float32_precision;
  std::int64_t amp = 0;  ///< Ascend, like the two below
  std::string opt_level = "O0";
  LossScale loss_scale_value;
  std::string half_type = "fp16";          ///< ours, like the two below
  std::string keep_norm_fp32 = "default";  ///< true, false or what OPT_LEVEL says
  std::string master_weights = "default";
  bool operator==(const Config&) const = default;
};

}  // namespace detforge
