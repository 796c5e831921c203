#include <filesystem>

#include <fmt/format.h>

#include "detforge/cli/build.h"
#include "detforge/cli/commands.h"
#include "detforge/cli/evaluation.h"
#include "detforge/cli/model_source.h"
#include "detforge/cli/threads.h"

namespace detforge {

namespace {

/// Below the run folder that was named, wherever it lies now, or else below OUTPUT_DIR.
std::filesystem::path default_folder(const EvalArguments& arguments, const Config& config) {
  const bool is_run = std::filesystem::is_directory(arguments.config);
  return std::filesystem::path(is_run ? arguments.config : config.output_dir) / "eval" / "manual";
}

}  // namespace

int run_eval(const EvalArguments& arguments) {
  const int threads = configure_threads(arguments.threads);
  const LoadedModel model = load_model({.source = arguments.config,
                                        .weights = arguments.weights,
                                        .overrides = arguments.overrides,
                                        .data = arguments.data});
  const bool augmented = model.config.test.aug.enabled;
  const auto detector =
      augmented ? with_test_time_augmentation(model.config, model.detector) : model.detector;
  const CocoEvaluation evaluation(model.config, model.class_names,
                                  {.pycocotools_compat = arguments.pycocotools_compat,
                                   .original_size = augmented,
                                   .threads = threads,
                                   .pictures = arguments.pictures});
  const std::filesystem::path folder = arguments.output.empty()
                                           ? default_folder(arguments, model.config)
                                           : std::filesystem::path(arguments.output);
  evaluation.run(*detector, folder);
  fmt::print("\nresults.json, metrics.json, per_class.csv and pictures are in {}\n",
             folder.string());
  return 0;
}

}  // namespace detforge
