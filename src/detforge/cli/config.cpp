#include <fmt/format.h>

#include "detforge/cli/commands.h"
#include "detforge/config/load.h"
#include "detforge/config/print.h"
#include "detforge/core/log.h"

namespace detforge {

int run_config(const ConfigArguments& arguments) {
  if (arguments.describe) {
    fmt::print("{}", describe_config());
    return 0;
  }
  const Config config = load_config(arguments.config, arguments.overrides);
  for (const auto& warning : config_warnings(config)) {
    log::warn("{}", warning);
  }
  fmt::print("{}", to_yaml(config));
  return 0;
}

}  // namespace detforge
