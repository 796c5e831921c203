#include "detforge/cli/recipe.h"

#include <cstdlib>
#include <filesystem>

#include "detforge/config/datasets.h"
#include "detforge/config/load.h"
#include "detforge/core/error.h"
#include "detforge/core/log.h"

namespace detforge {
namespace {

namespace fs = std::filesystem;

/// The files below --data that a name of Detectron2 (detectron2://ImageNetPretrained/MSRA/R-50.pkl,
/// catalog://ImageNetPretrained/FAIR/R-50-GN) or mmdetection (open-mmlab://darknet53) may mean.
std::vector<fs::path> local_files(const std::string& name) {
  if (name == "open-mmlab://darknet53") {
    return {"darknet53-a628ea1b.pth", "darknet53.conv.74"};
  }
  if (name.starts_with("detectron2://") || name.starts_with("catalog://")) {
    fs::path file = fs::path(name).filename();
    if (file.extension() != ".pkl") {
      file += ".pkl";
    }
    return {file};
  }
  return {};
}

/// Names of downloads become the file of that name below --data, if it is there; DetForge downloads
/// nothing by itself.
void resolve_weights(Config& config, const std::string& data) {
  if (data.empty()) {
    return;
  }
  for (const fs::path& file : local_files(config.model.weights)) {
    if (fs::exists(data / file)) {
      config.model.weights = (data / file).string();
      return;
    }
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

void resolve_cfg(Config& config, const fs::path& source) {
  std::string& cfg = config.model.darknet.cfg;
  if (cfg.empty()) {
    return;
  }
  fs::path file = cfg;
  for (const fs::path& folder : {source.parent_path(), source.parent_path().parent_path()}) {
    if (!fs::exists(file) && fs::exists(folder / fs::path(cfg).filename())) {
      file = folder / fs::path(cfg).filename();
    }
  }
  cfg = fs::absolute(file).lexically_normal().string();
}

Config load_recipe(const RecipeOptions& options) {
  fs::path file = options.file;
  if (fs::is_directory(file)) {
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
  resolve_cfg(config, file);
  if (options.needs_data) {
    resolve_data(config, options.data);
  }
  for (const auto& warning : config_warnings(config)) {
    log::warn("{}", warning);
  }
  return config;
}

}  // namespace detforge
