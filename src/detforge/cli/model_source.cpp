#include "detforge/cli/model_source.h"

#include <filesystem>

#include <fmt/format.h>

#include "detforge/cli/build.h"
#include "detforge/cli/initial_weights.h"
#include "detforge/cli/recipe.h"
#include "detforge/core/error.h"
#include "detforge/core/log.h"
#include "detforge/export/load_weights.h"
#include "detforge/models/blocks.h"
#include "detforge/serialize/torch_file.h"

namespace detforge {
namespace {

namespace fs = std::filesystem;

bool is_recipe(const fs::path& path) {
  return path.extension() == ".yaml" || path.extension() == ".yml";
}

/// The weights of a run folder: its best, or else its last.
std::string weights_of_run(const fs::path& run) {
  for (const char* name : {"best.pth", "last.pth"}) {
    const fs::path file = run / "checkpoints" / name;
    if (fs::exists(file)) {
      return file.string();
    }
  }
  throw Error("this run folder has no checkpoint yet", "train it first, or name a weights file")
      .add_where(run.string());
}

std::string choose_weights(const ModelSource& source) {
  if (!source.weights.empty()) {
    return source.weights;
  }
  if (fs::is_directory(source.source)) {
    return weights_of_run(source.source);
  }
  return is_recipe(source.source) ? "" : source.source;  // empty: MODEL.WEIGHTS of the recipe
}

/// A recipe given, the run folder's, or the one inside the checkpoint.
RecipeOptions choose_recipe(const ModelSource& source, const Value* content) {
  RecipeOptions recipe{
      .overrides = source.overrides, .data = source.data, .needs_data = source.needs_data};
  if (!source.config.empty()) {
    recipe.file = source.config;
  } else if (fs::is_directory(source.source) || is_recipe(source.source)) {
    recipe.file = source.source;
  } else {
    const Value* stored = content != nullptr ? content->find("config") : nullptr;
    const std::string* yaml = stored != nullptr ? stored->get_if<std::string>() : nullptr;
    DETFORGE_CHECK(
        yaml != nullptr, "these weights do not say what model they are for: they hold no config",
        "give the recipe with --config (for a network of Darknet: configs/Base-Darknet.yaml "
        "and --cfg-options MODEL.DARKNET.CFG=FILE)");
    recipe.text = *yaml;
    recipe.file = source.source;
  }
  return recipe;
}

}  // namespace

LoadedModel load_model(const ModelSource& source) {
  std::string weights = choose_weights(source);
  Value content;
  if (!weights.empty()) {
    content = read_torch_file(weights);
  }
  LoadedModel model{
      .config = load_recipe(choose_recipe(source, weights.empty() ? nullptr : &content)),
      .detector = nullptr,
      .class_names = {}};
  if (weights.empty()) {
    refuse_download(model.config.model);
    weights = model.config.model.weights;
    DETFORGE_CHECK(!weights.empty(), "there are no weights to use",
                   "give --weights FILE, or a run folder");
    content = read_torch_file(weights);
  }
  model.detector = build_detector(model.config);
  const LoadReport report = load_weights(*model.detector, content, weights, {});
  check_preprocessing(report.preprocessing, model.config);
  DETFORGE_CHECK(report.reinitialised.empty() && report.missing.empty(),
                 fmt::format("the weights do not fill the model\n{}", report.table()),
                 "use the config that these weights were trained with");
  log::info("weights from {}: {} tensors{}", weights, report.loaded.size(),
            report.averaged ? ", averaged over steps (ema)" : "");
  model.class_names = report.class_names;
  const Strings& named = model.config.datasets.classes;
  if (model.class_names.empty() &&
      static_cast<std::int64_t>(named.size()) == class_count(model.config)) {
    model.class_names = named;  // the file does not say, the recipe does
  }
  model.detector->eval();
  fold_norms_(*model.detector);
  return model;
}

}  // namespace detforge
