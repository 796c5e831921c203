#pragma once

#include <string>

#include <yaml-cpp/yaml.h>

#include "detforge/config/schema.h"

/// Values between YAML and Config, by the type and limits of their key.
namespace detforge::config {

/// Sets the key from a YAML value. Accepts what Detectron2 accepts: integers for numbers, `1e-4`,
/// quoted numbers, None, and lists as YAML ([1, 2]) or as Python's text ("(1, 2)", "(1,)"). Throws
/// Error (usage) naming key, allowed values and the given value; the caller adds the place.
void set_value(Config& config, const Key& key, const YAML::Node& node);

/// A command line word as YAML value: [..] and (..) are lists, quoted words lose their quotes, and
/// all else is taken literally, so that no character of a path means anything to YAML. Throws
/// YAML::Exception if brackets or quotes do not match.
YAML::Node node_of_word(const std::string& word);

/// As YAML, on one line; set_value reads it back exactly.
std::string format_value(const Config& config, const Key& key);

/// "a number from 0 to 1", "one of "BGR", "RGB"": what the key takes.
std::string allowed_values(const Key& key);

}  // namespace detforge::config
