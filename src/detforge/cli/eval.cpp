#include <filesystem>
#include <optional>

#include <fmt/format.h>

#include "detforge/cli/build.h"
#include "detforge/cli/commands.h"
#include "detforge/cli/evaluation.h"
#include "detforge/cli/model_source.h"
#include "detforge/cli/ranks.h"
#include "detforge/cli/report_errors.h"
#include "detforge/distributed/rank_output.h"

namespace detforge {

namespace {

/// Below the run folder that was named, wherever it lies now, or else below OUTPUT_DIR.
std::filesystem::path default_folder(const EvalArguments& arguments, const Config& config) {
  const bool is_run = std::filesystem::is_directory(arguments.config);
  return std::filesystem::path(is_run ? arguments.config : config.output_dir) / "eval" / "manual";
}

std::filesystem::path output_folder(const EvalArguments& arguments, const Config& config) {
  return arguments.output.empty() ? default_folder(arguments, config)
                                  : std::filesystem::path(arguments.output);
}

/// Evaluates as one rank, or as all there is.
int eval_as(const EvalArguments& arguments, const std::optional<ProcessPlace>& place) {
  const int threads = configure_rank_threads(arguments.threads, place);
  const LoadedModel model = load_model({.source = arguments.config,
                                        .weights = arguments.weights,
                                        .overrides = arguments.overrides,
                                        .data = arguments.data});
  const std::filesystem::path folder = output_folder(arguments, model.config);
  std::optional<RankOutput> output;
  if (place && place->rank > 0 && place->started_by != ProcessPlace().started_by) {
    output.emplace(log_of_rank(folder, place->rank));  // our own launcher has done so
  }
  const bool augmented = model.config.test.aug.enabled;
  const auto detector =
      augmented ? with_test_time_augmentation(model.config, model.detector) : model.detector;
  return as_rank(place, model.config, [&](Communicator& communicator) {
    const CocoEvaluation evaluation(model.config, model.class_names,
                                    {.pycocotools_compat = arguments.pycocotools_compat,
                                     .original_size = augmented,
                                     .threads = threads,
                                     .pictures = arguments.pictures,
                                     .communicator = &communicator});
    evaluation.run(*detector, folder);
    if (communicator.rank() == 0) {
      fmt::print("\nresults.json, metrics.json, per_class.csv and pictures are in {}\n",
                 folder.string());
    }
  });
}

}  // namespace

int run_eval(const EvalArguments& arguments) {
  if (starts_ranks(arguments.ranks)) {
    // Each rank loads the model: what computes must not have started threads before it is forked.
    const bool is_run = std::filesystem::is_directory(arguments.config);
    const std::filesystem::path logs = !arguments.output.empty() ? arguments.output
                                       : is_run                  ? arguments.config
                                                                 : "eval";
    return run_ranks(arguments.ranks, logs,
                     [&](const ProcessPlace& place) {
                       return report_errors([&] { return eval_as(arguments, place); });
                     })
        .status;
  }
  return eval_as(arguments, place_from_environment());
}

}  // namespace detforge
