#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>

#include <fmt/format.h>

#include "detforge/cli/build.h"
#include "detforge/cli/commands.h"
#include "detforge/cli/evaluation.h"
#include "detforge/cli/initial_weights.h"
#include "detforge/cli/pictures.h"
#include "detforge/cli/recipe.h"
#include "detforge/cli/resume_config.h"
#include "detforge/cli/threads.h"
#include "detforge/config/architecture.h"
#include "detforge/config/print.h"
#include "detforge/core/error.h"
#include "detforge/core/files.h"
#include "detforge/core/log.h"
#include "detforge/core/timer.h"
#include "detforge/distributed/single_process.h"
#include "detforge/train/ema.h"
#include "detforge/train/evaluation_hook.h"
#include "detforge/train/loop.h"
#include "detforge/train/metrics.h"
#include "detforge/train/nonfinite.h"
#include "detforge/train/run_lock.h"

namespace detforge {
namespace {

Config load_train_config(const TrainArguments& arguments) {
  Config config = arguments.resume.empty() ? load_recipe({.file = arguments.config,
                                                          .overrides = arguments.overrides,
                                                          .weights = arguments.init,
                                                          .output = arguments.output,
                                                          .data = arguments.data})
                                           : load_resumed_config(arguments);
  if (config.seed < 0) {
    config.seed = static_cast<std::int64_t>(std::random_device{}() >> 1);
    log::info("SEED is negative: this run uses {} (kept in config.yaml)", config.seed);
  }
  return config;
}

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

/// As it was typed, for the log.
std::string command_line() {
  std::ifstream stream("/proc/self/cmdline");
  std::string words((std::istreambuf_iterator<char>(stream)), {});
  std::replace(words.begin(), words.end(), '\0', ' ');
  return words;
}

/// A new run must not start in, and write over, the folder of another.
void refuse_existing_run(const std::filesystem::path& run) {
  if (std::filesystem::exists(run / "checkpoints" / "last.pth")) {
    throw Error("the output folder already holds a run with checkpoints",
                fmt::format("continue it with --resume {}, or choose another folder with --output",
                            run.string()),
                Error::Kind::kUsage)
        .add_where(run.string());
  }
}

/// --eval-only is `detforge eval` under Detectron2's name.
int evaluate_only(const TrainArguments& arguments) {
  return run_eval({.config = arguments.resume.empty() ? arguments.config : arguments.resume,
                   .overrides = arguments.overrides,
                   .weights = arguments.init,
                   .output = arguments.output,
                   .data = arguments.data,
                   .threads = arguments.threads});
}

/// Nothing if the config names no test data, as in Detectron2; the log says so.
std::unique_ptr<CocoEvaluation> build_evaluation(const Config& config,
                                                 const std::vector<std::string>& class_names,
                                                 int threads) {
  if (config.datasets.test_json.empty()) {
    log::warn("DATASETS.TEST is empty: this run is never evaluated and has no best.pth");
    return nullptr;
  }
  return std::make_unique<CocoEvaluation>(config, class_names,
                                          CocoEvaluationOptions{.threads = threads});
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
Config with_own_cfg(Config config, const std::filesystem::path& run) {
  std::string& cfg = config.model.darknet.cfg;
  if (!cfg.empty()) {
    const auto copy = std::filesystem::absolute(run / std::filesystem::path(cfg).filename());
    if (copy != cfg) {
      files::write_atomic(copy, files::read(cfg));
      cfg = copy.string();
    }
  }
  return config;
}

/// The run itself: everything is built here, and handed to the loop.
LoopResult train_run(const TrainArguments& arguments, const Config& recipe) {
  const std::filesystem::path run = recipe.output_dir;
  const CocoDataset dataset(train_dataset_options(recipe));
  const EpochLength epoch = epoch_length(recipe, dataset);
  const Config config = with_own_cfg(with_resolved_schedule(recipe, epoch), run);
  check_class_count(config, dataset);
  check_masks(config, dataset);
  const TransformPipeline transforms(train_transform_options(config));
  TrainLoader loader(dataset, transforms, train_loader_options(config));

  const auto detector = build_detector(config);
  Sgd optimizer(*detector, sgd_options(config.solver));
  const auto ema = build_ema(config, *detector, optimizer);
  Precision precision(precision_options(config));
  const LrSchedule schedule = build_schedule(config.solver);
  SingleProcess communicator;
  Checkpointer checkpointer(
      {.folder = run / "checkpoints", .keep_periodic = config.solver.checkpoints_keep},
      checkpoint_context(config, dataset), *detector, optimizer, loader, ema.get(), &precision);
  const TrainProgress start = start_progress(arguments, config, checkpointer, *detector);
  precision.apply(*detector, optimizer);
  log_precision(config, precision);

  const auto evaluation = build_evaluation(config, dataset.class_names(), arguments.threads);
  if (evaluation != nullptr) {
    evaluation->smoke(*detector);
  }
  write_training_pictures(dataset, transforms, config, run / "pictures");

  NonFiniteGuard guard(*detector, precision,
                       {.max_consecutive_skips = config.solver.nonfinite_skip,
                        .folder = run,
                        .config_yaml = to_yaml(config),
                        .usual_lr_per_image = usual_lr_per_image(config.model)});
  TrainingLog log({.folder = run,
                   .max_iter = config.solver.max_iter,
                   .start_iter = start.iteration,
                   .epoch_iters = epoch.iterations()});
  CheckpointHook checkpoints(checkpointer, config.solver.checkpoint_period);
  EvaluationHook evaluations(judge(evaluation.get(), *detector, run), config.test.eval_period,
                             *detector, checkpointer, log, ema.get());

  files::write_atomic(run / "config.yaml",
                      to_yaml(config));  // now that nothing can refuse it any more
  const TrainParts parts{.detector = *detector,
                         .optimizer = optimizer,
                         .schedule = schedule,
                         .source = loader,
                         .communicator = communicator,
                         .ema = ema.get(),
                         .precision = &precision};
  return train(parts,
               {.max_iter = config.solver.max_iter,
                .start = start,
                .accumulation_steps = config.solver.accumulation_steps},
               {&guard, &log, &checkpoints, &evaluations});
}

}  // namespace

int run_train(const TrainArguments& arguments) {
  if (arguments.eval_only) {
    return evaluate_only(arguments);
  }
  const Timer timer;
  const Config config = load_train_config(arguments);
  configure_threads(arguments.threads);
  const std::filesystem::path run = config.output_dir;
  const RunLock lock(run);
  if (arguments.resume.empty()) {
    refuse_existing_run(run);
  }
  log::add_file((run / "log.txt").string());
  log::info("DetForge {}: {}", DETFORGE_VERSION, command_line());
  LoopResult result;
  try {
    result = train_run(arguments, config);
  } catch (const std::exception& error) {
    log::write_to_files(log::Level::kError, error.what());  // main prints it
    throw;
  }
  log::info("{} after {} steps and {:.0f} s; the run is in {}",
            result.reason == StopReason::kFinished ? "finished" : "stopped",
            result.progress.iteration, timer.elapsed_s(), config.output_dir);
  return 0;
}

}  // namespace detforge
