#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <random>
#include <unistd.h>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/types.h>

#include "detforge/cli/build.h"
#include "detforge/cli/commands.h"
#include "detforge/cli/ranks.h"
#include "detforge/cli/recipe.h"
#include "detforge/cli/report_errors.h"
#include "detforge/cli/resume_config.h"
#include "detforge/cli/threads.h"
#include "detforge/cli/train_run.h"
#include "detforge/core/error.h"
#include "detforge/core/log.h"
#include "detforge/core/timer.h"
#include "detforge/distributed/process_place.h"
#include "detforge/distributed/rank_output.h"
#include "detforge/train/loop.h"
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
                   .threads = arguments.threads,
                   .ranks = arguments.ranks});
}

/// Trains as one rank, or as all there is. Errors are in the run's log, too, and the other ranks
/// have heard of them.
int train_as(const TrainArguments& arguments,
             Config config,
             const std::optional<ProcessPlace>& place,
             const CocoDataset* dataset) {
  const Timer timer;
  configure_rank_threads(arguments.threads, place);
  return as_rank(place, config, [&](Communicator& communicator) {
    if (communicator.rank() == 0) {
      log::add_file((std::filesystem::path(config.output_dir) / "log.txt").string());
    }
    log::info("DetForge {}: {}", DETFORGE_VERSION, command_line());
    try {
      Tensor seed = torch::full({1}, config.seed, torch::kLong);
      communicator.broadcast_(seed, 0);
      config.seed = seed.item<std::int64_t>();
      std::optional<CocoDataset> own;
      if (dataset == nullptr) {
        own.emplace(train_dataset_options(config));
      }
      const LoopResult result =
          train_run(arguments, with_actual_world_size(config, communicator.world_size()),
                    communicator, dataset != nullptr ? *dataset : *own,
                    /*is_supervised=*/dataset != nullptr);
      log::info("{} after {} steps and {:.0f} s; the run is in {}",
                result.reason == StopReason::kFinished ? "finished" : "stopped",
                result.progress.iteration, timer.elapsed_s(), config.output_dir);
    } catch (const std::exception& error) {
      log::write_to_files(log::Level::kError, error.what());  // main prints it
      throw;
    }
  });
}

/// This program again, going on from the last checkpoint; does not return.
[[noreturn]] void restart(const TrainArguments& arguments, const Config& config) {
  std::vector<std::string> words =
      std::filesystem::exists(std::filesystem::path(config.output_dir) / "checkpoints/last.pth")
          ? restart_words(arguments, config.output_dir)
          : restart_words(arguments, "");
  std::vector<char*> argv;
  for (std::string& word : words) {
    argv.push_back(word.data());
  }
  argv.push_back(nullptr);
  log::warn("starting again ({} more times at most): {}", arguments.ranks.max_restarts - 1,
            fmt::join(words, " "));
  count_restart();
  ::execv("/proc/self/exe", argv.data());
  throw Error("the program cannot be started again", "resume by hand");
}

/// Starts ranks and watches over them. The annotations are read once: forked processes share them.
int train_on_ranks(const TrainArguments& arguments, const Config& config) {
  LaunchResult result;
  {
    std::optional<RunLock> lock;
    if (arguments.ranks.node_rank == 0) {
      lock.emplace(config.output_dir);
      if (arguments.resume.empty()) {
        refuse_existing_run(config.output_dir);
      }
    }
    const CocoDataset dataset(train_dataset_options(config));
    result = run_ranks(arguments.ranks, config.output_dir, [&](const ProcessPlace& place) {
      return report_errors([&] { return train_as(arguments, config, place, &dataset); });
    });
  }
  if (result.status == 1 && !result.was_stopped && arguments.ranks.max_restarts > 0) {
    restart(arguments, config);
  }
  return result.status;
}

}  // namespace

int run_train(const TrainArguments& arguments) {
  if (arguments.eval_only) {
    return evaluate_only(arguments);
  }
  const bool starts = starts_ranks(arguments.ranks);
  const Config config = load_train_config(arguments);
  if (starts) {
    return train_on_ranks(arguments, config);
  }
  const auto place = place_from_environment();
  const std::filesystem::path run = config.output_dir;
  if (place && place->rank > 0) {
    const RankOutput output(log_of_rank(run, place->rank));
    return train_as(arguments, config, place, nullptr);
  }
  const RunLock lock(run);
  if (arguments.resume.empty()) {
    refuse_existing_run(run);
  }
  return train_as(arguments, config, place, nullptr);
}

}  // namespace detforge
