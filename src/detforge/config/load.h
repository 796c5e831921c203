#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "detforge/config/config.h"

namespace detforge {

/// Reads a config file, the files its `_BASE_` names, and then `overrides`: KEY VALUE pairs or
/// KEY=VALUE, in which later ones win. An empty path starts from the defaults. The result has been
/// checked as a whole. Throws Error (usage) with file and line (or "command line") for everything
/// that is wrong: an unknown, misplaced or duplicate key (with the nearest valid one), a value of
/// wrong type or range, values that do not fit each other, and values whose feature is not built
/// yet.
Config load_config(const std::filesystem::path& file,
                   const std::vector<std::string>& overrides = {});

/// The same for the text of an effective config (to_yaml) that was stored in `name`, a checkpoint.
Config load_config_text(const std::string& text,
                        const std::string& name,
                        const std::vector<std::string>& overrides = {});

/// Whether a length is said in epochs, which only the training data turns into steps.
bool has_epochs(const Config& config);

/// What is probably not meant in lengths of steps, one sentence each.
std::vector<std::string> schedule_warnings(const SolverConfig& solver);

/// What is allowed but probably not meant, one sentence each; schedule_warnings() unless
/// has_epochs().
std::vector<std::string> config_warnings(const Config& config);

}  // namespace detforge
