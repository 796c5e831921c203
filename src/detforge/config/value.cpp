#include "detforge/config/value.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>
#include <type_traits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "detforge/core/error.h"

namespace detforge::config {
namespace {

template <typename T>
constexpr bool kIsList = false;
template <typename T>
constexpr bool kIsList<std::vector<T>> = true;

bool is_null(const YAML::Node& node) {
  const bool quoted = node.IsScalar() && node.Tag() == "!";
  return node.IsNull() || (node.IsScalar() && !quoted && node.Scalar() == "None");
}

bool in_range(double value, const Limits& limits) {
  return value <= limits.max && (limits.above_min ? value > limits.min : value >= limits.min);
}

bool is_choice(const std::string& text, const Limits& limits) {
  return limits.choices.empty() ||
         std::find(limits.choices.begin(), limits.choices.end(), text) != limits.choices.end();
}

template <typename T>
bool parse_number(const std::string& text, T& out) {
  const std::string_view digits =
      std::string_view(text).substr(text.starts_with('+') && text.size() > 1 ? 1 : 0);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), out);
  return error == std::errc() && end == digits.data() + digits.size();
}

// One `parse` per type of key: true if the value was allowed and is now in `out`.

bool parse(const YAML::Node& node, const Limits&, bool& out) {
  if (!node.IsScalar()) {
    return false;
  }
  const std::string& text = node.Scalar();
  out = text == "true" || text == "True" || text == "TRUE";
  return out || text == "false" || text == "False" || text == "FALSE";
}

bool parse(const YAML::Node& node, const Limits& limits, std::int64_t& out) {
  return node.IsScalar() && parse_number(node.Scalar(), out) &&
         in_range(static_cast<double>(out), limits) && is_choice(std::to_string(out), limits);
}

bool parse(const YAML::Node& node, const Limits& limits, double& out) {
  return node.IsScalar() && parse_number(node.Scalar(), out) && std::isfinite(out) &&
         in_range(out, limits);
}

bool parse(const YAML::Node& node, const Limits& limits, std::string& out) {
  bool truth = false;
  const bool quoted = node.IsScalar() && node.Tag() == "!";
  if (!node.IsScalar() || (!quoted && parse(node, {}, truth)) ||
      !is_choice(node.Scalar(), limits)) {
    return false;
  }
  out = node.Scalar();
  return true;
}

bool parse(const YAML::Node& node, const Limits& limits, std::optional<double>& out) {
  out = is_null(node) ? std::nullopt : std::optional(0.0);
  return !out || parse(node, limits, *out);
}

bool parse(const YAML::Node& node, const Limits& limits, LossScale& out) {
  out = LossScale{.dynamic = node.IsScalar() && node.Scalar() == "dynamic"};
  return out.dynamic || parse(node, limits, out.value);
}

/// "(1, 2,)" -> the list [1, 2]. Quoted parts keep their parentheses. Other nodes are returned as
/// they are.
YAML::Node expand_tuple(const YAML::Node& node) {
  if (!node.IsScalar() || node.Scalar().empty() ||
      (node.Scalar().front() != '(' && node.Scalar().front() != '[')) {
    return node;
  }
  std::string text = node.Scalar();
  char quote = 0;
  for (char& c : text) {
    if (quote != 0) {
      quote = c == quote ? 0 : quote;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '(') {
      c = '[';
    } else if (c == ')') {
      c = ']';
    }
  }
  return YAML::Load(text);
}

template <typename T>
bool parse(const YAML::Node& given, const Limits& limits, std::vector<T>& out) {
  const YAML::Node node = expand_tuple(given);
  if (!node.IsSequence() || node.size() < limits.min_length || node.size() > limits.max_length) {
    return false;
  }
  out.clear();
  Limits element_limits = limits;
  if constexpr (kIsList<T>) {
    element_limits.min_length = 1;
  }
  for (const YAML::Node& element : node) {
    T value{};
    if (!parse(element, element_limits, value)) {
      return false;
    }
    out.push_back(std::move(value));
  }
  return true;
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string format(bool value) {
  return value ? "true" : "false";
}
std::string format(std::int64_t value) {
  return std::to_string(value);
}
std::string format(const std::string& value) {
  return quoted(value);
}

/// Shortest text that reads back exactly; always looks like a number with a fraction or an
/// exponent.
std::string format(double value) {
  const std::string text = fmt::format("{}", value);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

std::string format(const std::optional<double>& value) {
  return value ? format(*value) : "null";
}
std::string format(const LossScale& value) {
  return value.dynamic ? "\"dynamic\"" : format(value.value);
}

template <typename T>
std::string format(const std::vector<T>& values) {
  Strings texts;
  for (const auto& value : values) {
    texts.push_back(format(static_cast<const T&>(value)));
  }
  return fmt::format("[{}]", fmt::join(texts, ", "));
}

std::string given_value(const YAML::Node& node) {
  if (node.IsNull()) {
    return "nothing";
  }
  if (node.IsScalar()) {
    return quoted(node.Scalar());
  }
  YAML::Emitter emitter;
  emitter.SetSeqFormat(YAML::Flow);
  emitter.SetMapFormat(YAML::Flow);
  emitter << node;
  return emitter.c_str();
}

std::string number_text(double value) {
  return fmt::format("{:g}", value);
}

std::string range_text(const Limits& limits) {
  const bool low = limits.min != -kNoLimit, high = limits.max != kNoLimit;
  const char* from = limits.above_min ? " above " : " from ";
  if (low && high) {
    return from + number_text(limits.min) + (limits.above_min ? " up to " : " to ") +
           number_text(limits.max);
  }
  if (low) {
    return (limits.above_min ? " above " : " of at least ") + number_text(limits.min);
  }
  return high ? " of at most " + number_text(limits.max) : "";
}

template <typename T>
std::string type_text(const Limits& limits, bool plural) {
  if constexpr (std::is_same_v<T, bool>) {
    return plural ? "true/false values" : "true or false";
  } else if constexpr (std::is_same_v<T, std::int64_t>) {
    return (plural ? "integers" : "an integer") + range_text(limits);
  } else if constexpr (std::is_same_v<T, double>) {
    return (plural ? "numbers" : "a number") + range_text(limits);
  } else if constexpr (std::is_same_v<T, std::string>) {
    return plural ? "texts" : "a text";
  } else if constexpr (std::is_same_v<T, std::optional<double>>) {
    return "a number" + range_text(limits) + " or None";
  } else if constexpr (std::is_same_v<T, LossScale>) {
    return "a number" + range_text(limits) + " or \"dynamic\"";
  } else {
    static_assert(kIsList<T>);
    std::string text = plural ? "lists of " : "a list of ";
    if (!plural && limits.min_length == limits.max_length) {
      text += std::to_string(limits.min_length) + " ";
    } else if (!plural && limits.min_length > 0) {
      text += "at least " + std::to_string(limits.min_length) + " ";
    }
    return text + type_text<typename T::value_type>(limits, true);
  }
}

std::string choices_text(const Key& key) {
  const bool text = std::holds_alternative<std::string& (*)(Config&)>(key.member) ||
                    std::holds_alternative<Strings& (*)(Config&)>(key.member);
  Strings shown;
  for (const auto& choice : key.limits.choices) {
    shown.push_back(text ? quoted(choice) : choice);
  }
  return shown.size() == 1 ? shown.front() : fmt::format("one of {}", fmt::join(shown, ", "));
}

}  // namespace

void set_value(Config& config, const Key& key, const YAML::Node& node) {
  bool allowed = false;
  try {
    allowed = std::visit([&](auto at) { return parse(node, key.limits, at(config)); }, key.member);
  } catch (const YAML::Exception&) {
    allowed = false;  // a Python tuple whose brackets or quotes do not match
  }
  if (!allowed) {
    std::string fix = "default: " + format_value(Config{}, key);
    if (node.IsScalar() && fix.find('[') != std::string::npos) {
      fix = "write a list: [" + given_value(node) + "]; " + fix;
    }
    throw Error(key.name + " must be " + allowed_values(key) + ", not " + given_value(node), fix,
                Error::Kind::kUsage);
  }
}

YAML::Node node_of_word(const std::string& word) {
  const char first = word.empty() ? '\0' : word.front();
  if (first == '[' || first == '(') {
    return expand_tuple(YAML::Node(word));
  }
  return first == '"' || first == '\'' ? YAML::Load(word) : YAML::Node(word);
}

std::string format_value(const Config& config, const Key& key) {
  // The accessors only form a reference; nothing is written through it here.
  Config& readable = const_cast<Config&>(config);
  return std::visit([&](auto at) { return format(at(readable)); }, key.member);
}

std::string allowed_values(const Key& key) {
  return std::visit(
      [&](auto at) -> std::string {
        using T = std::remove_reference_t<decltype(at(std::declval<Config&>()))>;
        if (key.limits.choices.empty()) {
          return type_text<T>(key.limits, false);
        }
        return (kIsList<T> ? "a list of " : "") + choices_text(key);
      },
      key.member);
}

}  // namespace detforge::config
