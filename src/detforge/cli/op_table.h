#pragma once

#include <vector>

#include <nlohmann/json.hpp>

#include "detforge/ops/op_profile.h"

namespace detforge {

/// Prints the 20 ops that take the longest in a step of `seconds`, and what is left: the other ops,
/// and the time outside of all. Returns the same lines as an array of {name, calls, self_s}.
nlohmann::ordered_json print_op_table(const std::vector<OpTime>& by_self_time, double seconds);

}  // namespace detforge
