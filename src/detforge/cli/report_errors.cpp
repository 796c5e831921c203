#include "detforge/cli/report_errors.h"

#include <cstdio>
#include <exception>

#include <fmt/format.h>

#include "detforge/core/error.h"
#include "detforge/core/log.h"

namespace detforge {

int report_errors(const std::function<int()>& body) {
  try {
    return body();
  } catch (const Error& e) {
    fmt::print(stderr, "error: {}\n", e.what());
    if (!e.source().empty()) {
      log::debug("found at {}", e.source());
    }
    return e.kind() == Error::Kind::kUsage ? 2 : 1;
  } catch (const std::exception& e) {
    fmt::print(stderr, "error: {}\n", e.what());
    return 1;
  }
}

}  // namespace detforge
