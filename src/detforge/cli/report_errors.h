#pragma once

#include <functional>

namespace detforge {

/// Runs `body` and returns its exit status. What it throws is printed to stderr as `error: ...` and
/// becomes 2 (wrong usage or config) or 1 (anything else).
int report_errors(const std::function<int()>& body);

}  // namespace detforge
