#include "detforge/cli/recipe.h"

#include <cstdlib>
#include <filesystem>

#include "detforge/config/datasets.h"
#include "detforge/config/load.h"
#include "detforge/core/error.h"
#include "detforge/core/log.h"

namespace detforge {
namespace {

/// Detectron2's names of downloads (detectron2://ImageNetPretrained/MSRA/R-50.pkl,
/// catalog://ImageNetPretrained/FAIR/R-50-GN) become the file of that name below --data, if it is
/// there; DetForge downloads nothing by itself.
void resolve_weights(Config& config, const std::string& data) {
  const std::string& name = config.model.weights;
  if (data.empty() || !(name.starts_with("detectron2://") || name.starts_with("catalog://"))) {
    return;
  }
  std::filesystem::path local =
      std::filesystem::path(data) / std::filesystem::path(name).filename();
  if (local.extension() != ".pkl") {
    local += ".pkl";
  }
  if (std::filesystem::exists(local)) {
    config.model.weights = local.string();
  }
}

void resolve_data(Config& config, const std::string& data) {
  const DatasetsConfig before = config.datasets;
  const char* detectron2 = std::getenv("DETECTRON2_DATASETS");
  resolve_datasets(config, {.data = data, .detectron2 = detectron2 != nullptr ? detectron2 : ""});
  if (!data.empty() && config.datasets == before) {
    throw Error(
        "--data has no effect: the config names its files by absolute paths (a run folder does)",
        "override DATASETS.TEST_JSON and DATASETS.TEST_IMAGES (or the TRAIN ones) instead",
        Error::Kind::kUsage);
  }
}

}  // namespace

Config load_recipe(const RecipeOptions& options) {
  std::filesystem::path file = options.file;
  if (std::filesystem::is_directory(file)) {
    file /= "config.yaml";
  }
  Config config = options.text.empty()
                      ? load_config(file, options.overrides)
                      : load_config_text(options.text, options.file, options.overrides);
  if (!options.weights.empty()) {
    config.model.weights = options.weights;
  }
  if (!options.output.empty()) {
    config.output_dir = options.output;
  }
  resolve_weights(config, options.data);
  if (options.needs_data) {
    resolve_data(config, options.data);
  }
  for (const auto& warning : config_warnings(config)) {
    log::warn("{}", warning);
  }
  return config;
}

}  // namespace detforge
