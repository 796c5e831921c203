#include "detforge/config/load.h"

#include <map>

#include <fmt/format.h>

#include "detforge/config/architecture.h"
#include "detforge/config/document.h"
#include "detforge/config/suggest.h"
#include "detforge/config/validate.h"
#include "detforge/config/value.h"
#include "detforge/core/error.h"
#include "detforge/core/log.h"

namespace detforge {
namespace {

/// A length can be said in steps or in epochs: the form that is said last counts.
void forget_epochs(const std::string& steps_key, Config& config) {
  if (steps_key == "SOLVER.MAX_ITER") {
    config.solver.max_epochs = 0;
  } else if (steps_key == "SOLVER.STEPS") {
    config.solver.steps_epochs.clear();
  } else if (steps_key == "SOLVER.CHECKPOINT_PERIOD") {
    config.solver.checkpoint_period_epochs = 0;
  } else if (steps_key == "TEST.EVAL_PERIOD") {
    config.test.eval_period_epochs = 0;
  }
}

void apply(const config::Entry& entry, Config& out) {
  const config::Key* key = config::find_key(entry.key);
  try {
    if (key == nullptr) {
      throw Error("unknown key \"" + entry.key + "\"", config::suggest(entry.key),
                  Error::Kind::kUsage);
    }
    config::set_value(out, *key, entry.value);
    forget_epochs(entry.key, out);
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

/// Keys of another architecture that were set: whoever set them expects an effect.
void warn_unused(const Config& config, const std::map<std::string, std::string>& places) {
  for (const auto& [name, place] : places) {
    const config::Key& key = *config::find_key(name);
    if (!is_used(config.model, name) &&
        config::format_value(config, key) != config::format_value({}, key)) {
      log::warn("{} ({}) has no effect with MODEL.META_ARCHITECTURE {}", name, place,
                config.model.meta_architecture);
    }
  }
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
  warn_unused(result, places);
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

bool has_epochs(const Config& config) {
  const SolverConfig& solver = config.solver;
  return solver.max_epochs > 0 || !solver.steps_epochs.empty() ||
         solver.checkpoint_period_epochs > 0 || config.test.eval_period_epochs > 0;
}

std::vector<std::string> schedule_warnings(const SolverConfig& solver) {
  std::vector<std::string> warnings;
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
  return warnings;
}

std::vector<std::string> config_warnings(const Config& config) {
  std::vector<std::string> warnings;
  if (!has_epochs(config)) {
    warnings = schedule_warnings(config.solver);
  }
  if (config.model.weights.empty()) {
    const std::vector<std::string> frozen = scratch_warnings(config.model);
    warnings.insert(warnings.end(), frozen.begin(), frozen.end());
  }
  if (!is_rcnn(config.model) && config.solver.reference_ims_per_batch > 0) {
    warnings.push_back(
        "SOLVER.REFERENCE_IMS_PER_BATCH scales the rate of losses that are means, but YOLO's "
        "losses "
        "are sums, which grow with the batch by themselves");
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
