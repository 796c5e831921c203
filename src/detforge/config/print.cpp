#include "detforge/config/print.h"

#include <algorithm>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "detforge/config/schema.h"
#include "detforge/config/value.h"

namespace detforge {
namespace {

Strings split(const std::string& name) {
  Strings parts;
  std::istringstream stream(name);
  for (std::string part; std::getline(stream, part, '.');) {
    parts.push_back(part);
  }
  return parts;
}

}  // namespace

std::string to_yaml(const Config& config) {
  std::string text;
  Strings open;  // sections of the previous key
  for (const config::Key& key : config::schema()) {
    Strings sections = split(key.name);
    const std::string last = sections.back();
    sections.pop_back();
    const auto shared =
        std::mismatch(open.begin(), open.end(), sections.begin(), sections.end()).first -
        open.begin();
    for (std::size_t depth = static_cast<std::size_t>(shared); depth < sections.size(); ++depth) {
      text += fmt::format("{:{}}{}:\n", "", 2 * depth, sections[depth]);
    }
    text += fmt::format("{:{}}{}: {}\n", "", 2 * sections.size(), last,
                        config::format_value(config, key));
    open = std::move(sections);
  }
  return text;
}

std::string describe_config() {
  std::string text;
  for (const config::Key& key : config::schema()) {
    text += fmt::format("{}: {}\n    {}.\n    Takes {}.", key.name, config::format_value({}, key),
                        key.doc, config::allowed_values(key));
    if (!key.limits.available.empty()) {
      text += fmt::format(" Available today: {}.", fmt::join(key.limits.available, ", "));
    }
    text += "\n";
  }
  return text;
}

std::vector<std::string> config_differences(const Config& from, const Config& to) {
  std::vector<std::string> differences;
  for (const config::Key& key : config::schema()) {
    const std::string old_value = config::format_value(from, key);
    const std::string new_value = config::format_value(to, key);
    if (old_value != new_value) {
      differences.push_back(key.name + ": " + old_value + " -> " + new_value);
    }
  }
  return differences;
}

}  // namespace detforge
