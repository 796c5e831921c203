#include "detforge/config/load.h"

#include <map>

#include <fmt/format.h>

#include "detforge/config/architecture.h"
#include "detforge/config/document.h"
#include "detforge/config/suggest.h"
#include "detforge/config/validate.h"
#include "detforge/config/value.h"
#include "detforge/core/error.h"

namespace detforge {
namespace {

void apply(const config::Entry& entry, Config& out) {
  const config::Key* key = config::find_key(entry.key);
  try {
    if (key == nullptr) {
      throw Error("unknown key \"" + entry.key + "\"", config::suggest(entry.key),
                  Error::Kind::kUsage);
    }
    config::set_value(out, *key, entry.value);
  } catch (Error& e) {
    e.add_where(entry.place);
    throw;
  }
}

/// What of the model cannot learn well without MODEL.WEIGHTS.
std::vector<std::string> scratch_warnings(const ModelConfig& model) {
  std::vector<std::string> warnings;
  const auto frozen_stages = [&](const std::string& key, std::int64_t value) {
    if (value > 0) {
      warnings.push_back(fmt::format(
          "{} is {} but MODEL.WEIGHTS is empty: random stages stay frozen (use 0)", key, value));
    }
  };
  if (is_rcnn(model)) {
    if (model.resnets.norm == "FrozenBN") {
      warnings.push_back(
          "MODEL.RESNETS.NORM is FrozenBN but MODEL.WEIGHTS is empty: fixed statistics train badly "
          "from scratch (use GN)");
    }
    frozen_stages("MODEL.BACKBONE.FREEZE_AT", model.backbone.freeze_at);
  } else if (model.meta_architecture == "YOLOV3") {
    if (model.darknet.norm_eval) {
      warnings.push_back(
          "MODEL.DARKNET.NORM_EVAL is true but MODEL.WEIGHTS is empty: fixed statistics train "
          "badly from scratch (use false)");
    }
    frozen_stages("MODEL.DARKNET.FREEZE_AT", model.darknet.freeze_at);
  }
  return warnings;
}

Config build(std::vector<config::Entry> entries, const std::vector<std::string>& overrides) {
  const auto words = config::entries_of_words(overrides);
  entries.insert(entries.end(), words.begin(), words.end());
  Config result;
  std::map<std::string, std::string> places;
  for (const config::Entry& entry : entries) {
    apply(entry, result);
    places[entry.key] = entry.place;
  }
  config::validate(result, [&](const std::string& key) {
    const auto place = places.find(key);
    return place == places.end() ? std::string() : place->second;
  });
  return result;
}

}  // namespace

Config load_config(const std::filesystem::path& file, const std::vector<std::string>& overrides) {
  return build(file.empty() ? std::vector<config::Entry>{} : config::read_entries(file), overrides);
}

Config load_config_text(const std::string& text,
                        const std::string& name,
                        const std::vector<std::string>& overrides) {
  return build(config::entries_of_text(text, name), overrides);
}

std::vector<std::string> config_warnings(const Config& config) {
  std::vector<std::string> warnings;
  const SolverConfig& solver = config.solver;
  if (solver.lr_scheduler_name == "WarmupMultiStepLR") {
    for (const auto step : solver.steps) {
      if (step >= solver.max_iter) {
        warnings.push_back(
            fmt::format("SOLVER.STEPS {} is not before SOLVER.MAX_ITER {}: the learning rate is "
                        "not lowered there",
                        step, solver.max_iter));
      }
    }
  }
  if (solver.warmup_iters >= solver.max_iter && solver.warmup_factor < 1) {
    warnings.push_back(
        fmt::format("SOLVER.WARMUP_ITERS {} is not before SOLVER.MAX_ITER {}: the full learning "
                    "rate is never reached",
                    solver.warmup_iters, solver.max_iter));
  }
  if (config.model.weights.empty()) {
    const std::vector<std::string> frozen = scratch_warnings(config.model);
    warnings.insert(warnings.end(), frozen.begin(), frozen.end());
  }
  if (config.test.detections_per_image > config.test.max_dets) {
    warnings.push_back(
        fmt::format("TEST.DETECTIONS_PER_IMAGE {} is more than TEST.MAX_DETS {}: the evaluation "
                    "ignores the rest",
                    config.test.detections_per_image, config.test.max_dets));
  }
  return warnings;
}

}  // namespace detforge
