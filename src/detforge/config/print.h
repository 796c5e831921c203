#pragma once

#include <string>
#include <vector>

#include "detforge/config/config.h"

namespace detforge {

/// All keys as YAML. load_config reads it back to an equal Config.
std::string to_yaml(const Config& config);

/// For each key: name, default, what it takes and what it means.
std::string describe_config();

/// The keys whose values differ, as "SOLVER.BASE_LR: 0.02 -> 0.01"; in the table's order.
std::vector<std::string> config_differences(const Config& from, const Config& to);

}  // namespace detforge
