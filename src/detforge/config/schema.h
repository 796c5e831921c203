#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "detforge/config/config.h"

/// The one table of all config keys. Parsing, checking, printing, describing and comparing are all
/// driven from it, so a key is added by one member in config.h and one line in schema_*.cpp.
namespace detforge::config {

/// Finds the key's value in a Config; the alternative held is the key's type.
using Member = std::variant<bool& (*)(Config&),
                            std::int64_t& (*)(Config&),
                            double& (*)(Config&),
                            std::string& (*)(Config&),
                            std::optional<double>& (*)(Config&),
                            LossScale& (*)(Config&),
                            std::vector<bool>& (*)(Config&),
                            Integers& (*)(Config&),
                            Numbers& (*)(Config&),
                            Strings& (*)(Config&),
                            std::vector<Numbers>& (*)(Config&)>;

constexpr double kNoLimit = std::numeric_limits<double>::infinity();

/// Which values of its type a key takes. For lists, min, max and choices hold for each element.
struct Limits {
  double min = -kNoLimit;
  double max = kNoLimit;
  bool above_min = false;      ///< min itself is not allowed
  Strings choices = {};        ///< exact texts; for integers their digits; empty = no restriction
  std::size_t min_length = 0;  ///< of lists
  std::size_t max_length = std::numeric_limits<std::size_t>::max();
  /// Values, as printed by format_value, that can be used today. Others are legal Detectron2 and
  /// are refused as "not available yet". Empty = all.
  Strings available = {};
};

struct Key {
  std::string name;  ///< as in the file: "MODEL.RPN.NMS_THRESH"
  Member member;
  std::string doc;  ///< one line, no full stop
  Limits limits = {};
};

/// All keys, those of a section together, in the order in which they are printed.
const std::vector<Key>& schema();
/// The key of that exact name, or null.
const Key* find_key(std::string_view name);
/// Whether a key starts with `name` + ".".
bool is_section(std::string_view name);

/// "model.rpn.nms_thresh" -> "MODEL.RPN.NMS_THRESH".
std::string key_name(std::string_view member_path);

// The parts of the table, one file each.
std::vector<Key> model_keys();
std::vector<Key> head_keys();
std::vector<Key> yolo_keys();
std::vector<Key> data_keys();
std::vector<Key> training_keys();

}  // namespace detforge::config

/// Name and member of a Key from one spelling, so that they cannot differ.
#define DETFORGE_CONFIG_KEY(path)      \
  ::detforge::config::key_name(#path), \
      +[](::detforge::Config& c) -> decltype((c.path)) { return c.path; }
