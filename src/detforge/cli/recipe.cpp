#include "detforge/cli/recipe.h"

#include <cstdlib>
#include <filesystem>

#include "detforge/config/datasets.h"
#include "detforge/config/load.h"
#include "detforge/core/log.h"

namespace detforge {

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
  const char* detectron2 = std::getenv("DETECTRON2_DATASETS");
  resolve_datasets(config,
                   {.data = options.data, .detectron2 = detectron2 != nullptr ? detectron2 : ""});
  for (const auto& warning : config_warnings(config)) {
    log::warn("{}", warning);
  }
  return config;
}

}  // namespace detforge
