#include "detforge/cli/train_run.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "detforge/cli/build.h"
#include "detforge/cli/evaluation.h"
#include "detforge/cli/initial_weights.h"
#include "detforge/cli/pictures.h"
#include "detforge/config/architecture.h"
#include "detforge/config/print.h"
#include "detforge/core/error.h"
#include "detforge/core/files.h"
#include "detforge/core/log.h"
#include "detforge/models/synchronise_norms.h"
#include "detforge/train/checkpoint_file.h"
#include "detforge/train/ema.h"
#include "detforge/train/evaluation_hook.h"
#include "detforge/train/metrics.h"
#include "detforge/train/nonfinite.h"
#include "detforge/train/same_weights.h"

namespace detforge {
namespace {

/// Nothing without MODEL_EMA.ENABLED.
std::unique_ptr<Ema> build_ema(const Config& config, const Detector& detector, Sgd& optimizer) {
  const PrecisionOptions precision = precision_options(config);
  if (config.model_ema.enabled && has_half_weights(precision.level) && !precision.master_weights) {
    throw Error("MODEL_EMA needs f32 weights to average, and OPT_LEVEL " + config.opt_level +
                    " has no masters here",
                "set MASTER_WEIGHTS true, OPT_LEVEL O1 or O2, or MODEL_EMA.ENABLED false",
                Error::Kind::kUsage);
  }
  return config.model_ema.enabled
             ? std::make_unique<Ema>(
                   detector,
                   EmaOptions{.decay = config.model_ema.decay, .tau = config.model_ema.tau},
                   [&optimizer] { optimizer.publish_masters(); })
             : nullptr;
}

void log_precision(const Config& config, const Precision& precision) {
  log::info("precision {}", precision.description());
  if (config.float32_precision == "high" || config.float32_precision == "medium") {
    log::info("FLOAT32_PRECISION {} has no effect: this CPU has no TF32 or HF32 products",
              config.float32_precision);
  }
}

/// Where the run starts: at its newest checkpoint, or from weights.
TrainProgress start_progress(const TrainArguments& arguments,
                             const Config& config,
                             Checkpointer& checkpointer,
                             Detector& detector) {
  if (!arguments.resume.empty()) {
    if (const auto progress = checkpointer.resume()) {
      DETFORGE_CHECK(
          progress->iteration < config.solver.max_iter,
          fmt::format("nothing to do: {} of {} steps are already done", progress->iteration,
                      config.solver.max_iter),
          "raise SOLVER.MAX_ITER to train on, or evaluate what is there with detforge eval");
      return *progress;
    }
    log::warn("{} holds no checkpoint yet: starting from the beginning", arguments.resume);
  }
  load_initial_weights(detector, config);
  return {};
}

/// Nothing if the config names no test data, as in Detectron2; the log says so.
std::unique_ptr<CocoEvaluation> build_evaluation(const Config& config,
                                                 const std::vector<std::string>& class_names,
                                                 int threads,
                                                 Communicator& communicator) {
  if (config.datasets.test_json.empty()) {
    log::warn("DATASETS.TEST is empty: this run is never evaluated and has no best.pth");
    return nullptr;
  }
  return std::make_unique<CocoEvaluation>(
      config, class_names,
      CocoEvaluationOptions{.threads = threads, .communicator = &communicator});
}

/// What EvaluationHook calls: the evaluation, into a folder named after the step.
EvaluationHook::Evaluate judge(const CocoEvaluation* evaluation,
                               Detector& detector,
                               const std::filesystem::path& run) {
  return [=, &detector](std::int64_t iteration) {
    return evaluation == nullptr
               ? EvaluationResult{}
               : evaluation->run(detector, run / "eval" / fmt::format("iter_{}", iteration));
  };
}

/// A network described by a file needs it as long as its weights: the run folder keeps a copy.
Config with_own_cfg(Config config, const std::filesystem::path& run, bool writes) {
  std::string& cfg = config.model.darknet.cfg;
  if (!cfg.empty()) {
    const auto copy = std::filesystem::absolute(run / std::filesystem::path(cfg).filename());
    if (copy != cfg && writes) {
      files::write_atomic(copy, files::read(cfg));
    }
    cfg = copy.string();
  }
  return config;
}

/// Rank 0 reads first: it also sets damaged files aside.
TrainProgress start_on_all_ranks(const TrainArguments& arguments,
                                 const Config& config,
                                 Communicator& communicator,
                                 Checkpointer& checkpointer,
                                 Detector& detector) {
  const bool waits = communicator.rank() > 0;
  if (waits) {
    communicator.barrier();
  }
  const TrainProgress start = start_progress(arguments, config, checkpointer, detector);
  if (!waits) {
    communicator.barrier();
  }
  return start;
}

/// Keeps what the ranks had before one of them was lost.
Rescue rescue_with(Communicator& communicator,
                   Checkpointer& checkpointer,
                   const std::filesystem::path& folder) {
  return [&communicator, &checkpointer, folder](const TrainProgress& progress,
                                                const std::string& place) {
    const auto last = peek_checkpoint(folder / "last.pth");
    const bool is_kept = last && last->iteration >= progress.iteration;
    if (progress.iteration == 0 || is_kept || !communicator.claim_rescue()) {
      return;
    }
    try {
      checkpointer.save(progress, place);
      log::warn("saved the state after {} steps; continue with --resume", progress.iteration);
    } catch (const std::exception& error) {
      log::error("the state after {} steps could not be saved: {}", progress.iteration,
                 error.what());
    }
  };
}

}  // namespace

LoopResult train_run(const TrainArguments& arguments,
                     const Config& recipe,
                     Communicator& communicator,
                     const CocoDataset& dataset,
                     bool is_supervised) {
  const std::filesystem::path run = recipe.output_dir;
  const bool is_first = communicator.rank() == 0;
  const EpochLength epoch = epoch_length(recipe, dataset);
  const Config config = with_own_cfg(with_resolved_schedule(recipe, epoch), run, is_first);
  check_class_count(config, dataset);
  check_masks(config, dataset);
  const std::int64_t ranks = communicator.world_size();
  if (config.deterministic && (ranks & (ranks - 1)) != 0) {
    throw Error(fmt::format("DETERMINISTIC is for 1, 2, 4, 8, ... ranks, not for {}", ranks),
                "start another number, or set DETERMINISTIC false", Error::Kind::kUsage);
  }
  const TransformPipeline transforms(train_transform_options(config));
  LoaderOptions loader_options = train_loader_options(config);
  loader_options.rank = communicator.rank();
  loader_options.world_size = communicator.world_size();
  TrainLoader loader(dataset, transforms, loader_options);

  const auto detector = build_detector(config);
  const bool talks_in_model = synchronise_norms(*detector, communicator);
  if (talks_in_model && config.solver.accumulation_steps > 1 &&
      config.solver.ims_per_batch % ranks != 0) {
    throw Error(fmt::format("SyncBN with SOLVER.ACCUMULATION_STEPS needs parts of one size, but "
                            "{} images are shared by {} ranks",
                            config.solver.ims_per_batch, ranks),
                "choose a SOLVER.IMS_PER_BATCH that the number of ranks divides",
                Error::Kind::kUsage);
  }
  Sgd optimizer(*detector, sgd_options(config.solver));
  const auto ema = build_ema(config, *detector, optimizer);
  Precision precision(precision_options(config));
  const LrSchedule schedule = build_schedule(config.solver);
  CheckpointContext context = checkpoint_context(config, dataset);
  context.world_size = communicator.world_size();
  Checkpointer checkpointer(
      {.folder = run / "checkpoints", .keep_periodic = config.solver.checkpoints_keep}, context,
      *detector, optimizer, loader, ema.get(), &precision);
  const TrainProgress start =
      start_on_all_ranks(arguments, config, communicator, checkpointer, *detector);
  precision.apply(*detector, optimizer);
  log_precision(config, precision);
  check_same_weights(communicator, *detector, "at the start");
  const auto reducer = build_reducer(config, optimizer, communicator);

  const auto evaluation =
      build_evaluation(config, dataset.class_names(), arguments.threads, communicator);
  if (is_first) {
    communicator.serial_work("trying an evaluation");
    if (evaluation != nullptr) {
      evaluation->smoke(*detector);
    }
    write_training_pictures(dataset, transforms, config, run / "pictures");
  }

  NonFiniteGuard guard(*detector, precision,
                       {.max_consecutive_skips = config.solver.nonfinite_skip,
                        .folder = run,
                        .config_yaml = to_yaml(config),
                        .usual_lr_per_image = usual_lr_per_image(config.model),
                        .rank = communicator.rank()});
  std::optional<TrainingLog> log;
  std::optional<CheckpointHook> checkpoints;
  if (is_first) {
    log.emplace(TrainingLogOptions{.folder = run,
                                   .max_iter = config.solver.max_iter,
                                   .start_iter = start.iteration,
                                   .epoch_iters = epoch.iterations()});
    checkpoints.emplace(checkpointer, config.solver.checkpoint_period, communicator);
    files::write_atomic(run / "config.yaml",
                        to_yaml(config));  // now that nothing can refuse it any more
  }
  SameWeightsHook same_weights(communicator, *detector, config.distributed.check_period);
  EvaluationHook evaluations(judge(evaluation.get(), *detector, run), config.test.eval_period,
                             *detector, checkpointer, log ? &*log : nullptr, ema.get());
  std::vector<Hook*> hooks{&guard, &same_weights};
  if (is_first) {
    hooks.insert(hooks.end(), {&*log, &*checkpoints});
  }
  hooks.push_back(&evaluations);
  communicator.barrier();  // the first step's deadline begins when all are ready

  const TrainParts parts{.detector = *detector,
                         .optimizer = optimizer,
                         .schedule = schedule,
                         .source = loader,
                         .communicator = communicator,
                         .ema = ema.get(),
                         .precision = &precision,
                         .reducer = reducer.get()};
  return train(parts,
               {.max_iter = config.solver.max_iter,
                .start = start,
                .accumulation_steps = config.solver.accumulation_steps,
                .is_deterministic = config.deterministic,
                .talks_in_model = talks_in_model,
                .second_signal_kills = !is_supervised,
                .rescue = ranks > 1 ? rescue_with(communicator, checkpointer, run / "checkpoints")
                                    : Rescue()},
               hooks);
}

}  // namespace detforge
