#pragma once

#include <memory>
#include <string>
#include <vector>

#include "detforge/config/config.h"
#include "detforge/models/detector.h"

namespace detforge {

/// Where a trained model comes from. `source` is a run folder (its config.yaml and
/// checkpoints/best.pth, else last.pth), a recipe (with MODEL.WEIGHTS or `weights`), or a
/// checkpoint of DetForge, which holds its config.
struct ModelSource {
  std::string source;
  std::string weights = {};  ///< instead of what `source` says
  std::string config = {};   ///< recipe to use instead of the one stored with the weights
  std::vector<std::string> overrides = {};
  std::string data = {};   ///< --data
  bool needs_data = true;  ///< see RecipeOptions
};

/// A detector ready for predict(): in eval mode, with weights, norms folded (models/blocks.h).
struct LoadedModel {
  Config config;
  std::shared_ptr<Detector> detector;
  std::vector<std::string> class_names;  ///< of the weights; empty if the file does not say
};

/// Throws Error if there are no weights, or if they do not fit the config.
LoadedModel load_model(const ModelSource& source);

}  // namespace detforge
