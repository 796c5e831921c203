#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "detforge/config/config.h"

namespace detforge {

/// What the command line says about a recipe. Empty strings change nothing.
struct RecipeOptions {
  std::string file = {};  ///< recipe, or a run folder (its config.yaml is read)
  std::string text =
      {};  ///< the recipe itself, stored in `file` (a checkpoint); empty: it is read from `file`
  std::vector<std::string> overrides = {};
  std::string weights = {};  ///< MODEL.WEIGHTS
  std::string output = {};   ///< OUTPUT_DIR
  std::string data = {};     ///< --data; without it $DETECTRON2_DATASETS counts
  bool needs_data = true;    ///< false: DATASETS stays as it is
};

/// Makes MODEL.DARKNET.CFG absolute. A file that is not where it was (a run folder that was moved)
/// is looked for beside `source`, the config or checkpoint, and one folder up, where a training
/// puts its copy.
void resolve_cfg(Config& config, const std::filesystem::path& source);

/// Loads the config, applies the options, resolves datasets (resolve_datasets) and the .cfg file to
/// absolute paths and logs the config's warnings. Throws as load_config does.
Config load_recipe(const RecipeOptions& options);

}  // namespace detforge
