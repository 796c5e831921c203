#include "detforge/cli/resume_config.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>

#include <fmt/format.h>

#include "detforge/cli/recipe.h"
#include "detforge/config/load.h"
#include "detforge/config/print.h"
#include "detforge/core/error.h"
#include "detforge/core/files.h"
#include "detforge/core/log.h"

namespace detforge {
namespace {

// Prefixes of keys that may change when a run goes on. SOLVER.IMS_PER_BATCH is not among them: the
// order of the images would be another one. The training data may move to another place; its number
// of images is checked on restore.
constexpr std::array<std::string_view, 16> kMayChange = {"TEST.",
                                                         "DATASETS.TEST",
                                                         "DATASETS.TRAIN_JSON",
                                                         "DATASETS.TRAIN_IMAGES",
                                                         "DATALOADER.NUM_WORKERS",
                                                         "DATALOADER.PREFETCH",
                                                         "DATALOADER.CORRUPT_IMAGES",
                                                         "OUTPUT_DIR",
                                                         "VIS_PERIOD",
                                                         "MODEL.WEIGHTS",
                                                         "INPUT.MIN_SIZE_TEST",
                                                         "INPUT.MAX_SIZE_TEST",
                                                         "INPUT.RESIZE_TEST",
                                                         "INPUT.SIZE_TEST",
                                                         "DISTRIBUTED.",
                                                         "SOLVER."};

bool may_change(const std::string& difference) {
  if (difference.starts_with("SOLVER.IMS_PER_BATCH")) {
    return false;
  }
  return std::any_of(kMayChange.begin(), kMayChange.end(),
                     [&](std::string_view prefix) { return difference.starts_with(prefix); });
}

/// A .cfg file may lie elsewhere, if it says the same.
void keep_equal_cfg(const std::string& stored, std::string& cfg) {
  if (!stored.empty() && !cfg.empty() && files::read(stored) == files::read(cfg)) {
    cfg = stored;
  }
}

}  // namespace

Config load_resumed_config(const TrainArguments& arguments) {
  if (!arguments.output.empty()) {
    throw Error("--resume and --output do not go together", "a run continues in its own folder",
                Error::Kind::kUsage);
  }
  const std::filesystem::path stored_file = std::filesystem::path(arguments.resume) / "config.yaml";
  Config stored = load_config(stored_file);
  resolve_cfg(stored, stored_file);
  Config config =
      load_recipe({.file = arguments.config.empty() ? stored_file.string() : arguments.config,
                   .overrides = arguments.overrides,
                   .output = arguments.resume,
                   .data = arguments.data});
  if (config.seed < 0) {
    config.seed = stored.seed;  // drawn when the run began
  }
  keep_equal_cfg(stored.model.darknet.cfg, config.model.darknet.cfg);
  for (const std::string& difference : config_differences(stored, config)) {
    if (!may_change(difference)) {
      throw Error("a run cannot be resumed with another " + difference,
                  "leave it as it was, or start a new run from these weights with --init",
                  Error::Kind::kUsage)
          .add_where(arguments.resume);
    }
    if (!difference.starts_with("OUTPUT_DIR")) {
      log::info("changed on resume: {}", difference);
    }
  }
  return config;
}

std::vector<std::string> restart_words(const TrainArguments& a, const std::string& run) {
  std::vector<std::string> words{"detforge", "train"};
  const auto add = [&](const char* option, const std::string& value) {
    if (!value.empty()) {
      words.insert(words.end(), {option, value});
    }
  };
  if (!run.empty()) {
    add("--resume", run);  // its config.yaml has recipe and overrides
  } else {
    if (!a.config.empty()) {
      words.push_back(a.config);
    }
    add("--resume", a.resume);
    add("--init", a.init);
    add("--output", a.output);
    add("--data", a.data);
    words.insert(words.end(), a.overrides.begin(), a.overrides.end());
  }
  add("--threads", std::to_string(a.threads));
  add("--allocator", a.allocator == Allocator::kCaching ? "caching" : "system");
  const RankArguments& r = a.ranks;
  add("--nproc", std::to_string(r.nproc));
  add("--nnodes", std::to_string(r.nnodes));
  add("--node-rank", std::to_string(r.node_rank));
  add("--master-addr", r.master_addr);
  add("--master-port", std::to_string(r.master_port));
  add("--local-addr", r.local_addr);
  add("--max-restarts", std::to_string(r.max_restarts - 1));
  if (r.bind_cores) {
    words.emplace_back("--bind-cores");
  }
  return words;
}

}  // namespace detforge
