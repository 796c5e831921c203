#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "detforge/cli/build.h"
#include "detforge/config/architecture.h"
#include "detforge/config/load.h"
#include "detforge/config/print.h"
#include "detforge/core/error.h"
#include "detforge/core/log.h"
#include "detforge/train/epochs.h"

namespace detforge {

EpochLength epoch_length(const Config& config, const CocoDataset& dataset) {
  const double threshold = train_loader_options(config).repeat_threshold;
  const std::vector<double> repeats =
      threshold > 0 ? dataset.repeat_factors(threshold) : std::vector<double>{};
  return EpochLength({.images = threshold > 0 ? std::accumulate(repeats.begin(), repeats.end(), 0.0)
                                              : static_cast<double>(dataset.size()),
                      .images_per_step = config.solver.ims_per_batch});
}

Config with_resolved_schedule(Config config, const EpochLength& epoch) {
  SolverConfig& solver = config.solver;
  const bool had_epochs = has_epochs(config);
  const auto convert = [&](double& epochs, std::int64_t& steps) {
    if (epochs > 0) {
      steps = epoch.iterations(std::exchange(epochs, 0.0));
    }
  };
  convert(solver.max_epochs, solver.max_iter);
  convert(solver.checkpoint_period_epochs, solver.checkpoint_period);
  convert(config.test.eval_period_epochs, config.test.eval_period);
  if (!solver.steps_epochs.empty()) {
    solver.steps = epoch.iterations(std::exchange(solver.steps_epochs, {}));
  }
  log::info("an epoch is {} steps; this run has {:.1f} epochs, {} steps", epoch.iterations(),
            epoch.epochs(solver.max_iter), solver.max_iter);
  if (had_epochs) {  // before, there was no telling
    for (const std::string& warning : schedule_warnings(solver)) {
      log::warn("{}", warning);
    }
  }
  if (const auto reference = std::exchange(solver.reference_ims_per_batch, 0); reference > 0) {
    const double lr = scale_lr_linearly(solver.base_lr, solver.ims_per_batch, reference);
    log::info("SOLVER.BASE_LR {} for {} images a step is {} for {} (linear rule)", solver.base_lr,
              reference, lr, solver.ims_per_batch);
    solver.base_lr_end = scale_lr_linearly(solver.base_lr_end, solver.ims_per_batch, reference);
    solver.base_lr = lr;
  }
  return config;
}

Config with_actual_world_size(Config config, std::int64_t world_size) {
  SolverConfig& solver = config.solver;
  const std::int64_t reference = std::exchange(solver.reference_world_size, 0);
  if (reference == 0 || reference == world_size) {
    return config;
  }
  const double scale = static_cast<double>(world_size) / static_cast<double>(reference);
  const double images = static_cast<double>(solver.ims_per_batch) * scale;
  DETFORGE_CHECK(images == std::round(images) && images >= 1,
                 fmt::format("SOLVER.IMS_PER_BATCH {} for {} ranks is no whole number for {}",
                             solver.ims_per_batch, reference, world_size),
                 "choose another number of ranks, or SOLVER.REFERENCE_WORLD_SIZE 0");
  const auto shorten = [scale](std::int64_t& steps) {
    steps = std::lround(static_cast<double>(steps) / scale);
  };
  const std::int64_t iterations = solver.max_iter, batch = solver.ims_per_batch;
  const double rate = solver.base_lr;
  solver.ims_per_batch = std::lround(images);
  solver.base_lr *= scale;
  solver.base_lr_end *= scale;
  for (std::int64_t* steps : {&solver.max_iter, &solver.warmup_iters, &solver.checkpoint_period,
                              &config.test.eval_period}) {
    shorten(*steps);
  }
  std::for_each(solver.steps.begin(), solver.steps.end(), shorten);
  log::info(
      "SOLVER.REFERENCE_WORLD_SIZE {}, {} ranks: IMS_PER_BATCH {} -> {}, BASE_LR {:.6g} -> {:.6g}, "
      "MAX_ITER {} -> {}, WARMUP_ITERS {}, STEPS {}",
      reference, world_size, batch, solver.ims_per_batch, rate, solver.base_lr, iterations,
      solver.max_iter, solver.warmup_iters, fmt::join(solver.steps, " "));
  return config;
}

LrSchedule build_schedule(const SolverConfig& solver) {
  using Decay = LrScheduleOptions::Decay;
  Decay decay = Decay::kMultiStep;
  if (solver.lr_scheduler_name == "WarmupCosineLR") {
    decay = Decay::kCosine;
  } else if (solver.lr_scheduler_name == "WarmupStepWithFixedGammaLR") {
    decay = Decay::kStepWithFixedGamma;
  }
  return LrSchedule({
      .decay = decay,
      .base_lr = solver.base_lr,
      .base_lr_end = solver.base_lr_end,
      .max_iter = solver.max_iter,
      .steps = solver.steps,
      .gamma = solver.gamma,
      .num_decays = solver.num_decays,
      .warmup = solver.warmup_method == "constant" ? LrScheduleOptions::Warmup::kConstant
                                                   : LrScheduleOptions::Warmup::kLinear,
      .warmup_iters = solver.warmup_iters,
      .warmup_factor = solver.warmup_factor,
      .rescale_interval = solver.rescale_interval,
  });
}

SgdOptions sgd_options(const SolverConfig& solver) {
  using Type = GradientClipOptions::Type;
  const ClipGradientsConfig& clip = solver.clip_gradients;
  Type type = Type::kNone;
  if (clip.enabled) {
    type = clip.clip_type == "value"  ? Type::kValue
           : clip.clip_type == "norm" ? Type::kNorm
                                      : Type::kFullModel;
  }
  return {
      .momentum = solver.momentum,
      .nesterov = solver.nesterov,
      .weight_decay = solver.weight_decay,
      .weight_decay_norm = solver.weight_decay_norm,
      .weight_decay_bias = solver.weight_decay_bias.value_or(-1),
      .bias_lr_factor = solver.bias_lr_factor,
      .clip = {.type = type, .value = clip.clip_value, .norm_type = clip.norm_type},
  };
}

PrecisionOptions precision_options(const Config& config) {
  const bool as_detectron2 = config.amp == 0 && config.solver.amp.enabled;
  const OptLevel level = config.amp == 1 ? opt_level_of(config.opt_level)
                         : as_detectron2 ? OptLevel::kO1
                                         : OptLevel::kO0;
  PrecisionOptions options = precision_options(level);
  options.half_type = config.half_type == "bf16" ? at::kBFloat16 : at::kHalf;
  const auto choose = [](bool& value, const std::string& text) {
    value = text == "default" ? value : text == "true";
  };
  choose(options.keep_norm_fp32, config.keep_norm_fp32);
  choose(options.master_weights, config.master_weights);
  if (!as_detectron2) {
    options.loss_scale = config.loss_scale_value.dynamic
                             ? dynamic_loss_scale()
                             : LossScaleOptions{.value = config.loss_scale_value.value};
  } else if (options.half_type == at::kBFloat16) {
    options.loss_scale = {};  // bf16 has the range of f32
  }
  return options;
}

std::unique_ptr<GradientReducer> build_reducer(const Config& config,
                                               const Sgd& optimizer,
                                               Communicator& communicator) {
  if (communicator.world_size() == 1) {
    return nullptr;
  }
  const std::string& compression = config.solver.grad_compression;
  return std::make_unique<GradientReducer>(
      optimizer.parameters(), communicator,
      GradientReducerOptions{
          .bucket_bytes = static_cast<std::int64_t>(config.distributed.bucket_mb * (1 << 20)),
          .compression = compression == "fp16"       ? Compression::kFp16
                         : compression == "bf16"     ? Compression::kBf16
                         : compression == "powersgd" ? Compression::kPowerSgd
                                                     : Compression::kNone,
          .power_sgd_rank = config.solver.powersgd_rank,
          .is_deterministic = config.deterministic});
}

CheckpointContext checkpoint_context(const Config& config, const CocoDataset& dataset) {
  CheckpointContext context{
      .class_names = dataset.class_names(),
      .category_ids = {},
      .pixel_mean = config.model.pixel_mean,
      .pixel_std = config.model.pixel_std,
      .pixel_format = config.input.format,
      .config_yaml = to_yaml(config),
      .version = DETFORGE_VERSION,
  };
  for (const auto& id : dataset.category_ids()) {
    context.category_ids.push_back(id.value_or(-1));
  }
  return context;
}

void check_class_count(const Config& config, const CocoDataset& dataset) {
  const auto classes = static_cast<std::int64_t>(dataset.class_names().size());
  const std::int64_t expected = class_count(config);
  if (expected == classes) {
    return;
  }
  const std::string key = num_classes_key(config.model);
  const std::string names = fmt::format("{}", fmt::join(dataset.class_names(), ", "));
  if (key.empty()) {
    throw Error(fmt::format("the network has {} classes, but the data has {} ({})", expected,
                            classes, names),
                fmt::format("set classes={} and the filters before each [yolo] in {}, or choose "
                            "classes with DATASETS.CLASSES",
                            classes, config.model.darknet.cfg),
                Error::Kind::kUsage);
  }
  throw Error(
      fmt::format("{} is {}, but the data has {} classes ({})", key, expected, classes, names),
      fmt::format("add {} {}, or choose classes with DATASETS.CLASSES", key, classes),
      Error::Kind::kUsage);
}

void check_masks(const Config& config, const CocoDataset& dataset) {
  if (!config.model.mask_on) {
    return;
  }
  std::int64_t objects = 0, with_mask = 0;
  for (std::size_t file = 0; file < config.datasets.train_json.size(); ++file) {
    for (const CocoAnnotation& annotation : dataset.store(file).annotations()) {
      const bool trained = annotation.usable && !annotation.is_crowd;
      objects += trained ? 1 : 0;
      with_mask += trained && (annotation.part_count > 0 || annotation.rle >= 0) ? 1 : 0;
    }
  }
  if (with_mask == 0) {
    throw Error("MODEL.MASK_ON is true, but no object of the training data has a mask",
                "give annotations with \"segmentation\", or set MODEL.MASK_ON false",
                Error::Kind::kUsage);
  }
  if (with_mask < objects) {
    log::warn("{} of {} training objects have no mask: they train boxes only", objects - with_mask,
              objects);
  }
}

}  // namespace detforge
