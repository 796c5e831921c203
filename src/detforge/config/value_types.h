#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

/// The types of config values that need a name.
namespace detforge {

using Strings = std::vector<std::string>;
using Integers = std::vector<std::int64_t>;
using Numbers = std::vector<double>;

/// A number, or "dynamic" (adapts itself during training).
struct LossScale {
  bool dynamic = false;
  double value = 64;  ///< unused when dynamic
  bool operator==(const LossScale&) const = default;
};

}  // namespace detforge
