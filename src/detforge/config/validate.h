#pragma once

#include <functional>
#include <string>

#include "detforge/config/config.h"

namespace detforge::config {

/// Checks what no single key shows: that values fit each other, and that their features are built.
/// `place_of(key)` says where a key was set; empty = default. Throws Error (usage) naming keys and
/// places.
void validate(const Config& config,
              const std::function<std::string(const std::string& key)>& place_of);

}  // namespace detforge::config
