#include "detforge/models/darknet/cfg_reader.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "detforge/core/error.h"
#include "detforge/core/nearest_name.h"

namespace detforge {
namespace {

constexpr std::size_t kMostItems = 4096;

/// The whole text as a number, or nothing.
template <typename Number>
std::optional<Number> parse(std::string_view text) {
  Number number = 0;
  if (text.substr(0, 1) == "+") {
    text.remove_prefix(1);
  }
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (text.empty() || error != std::errc{} || stop != end) {
    return std::nullopt;
  }
  return number;
}

/// "1,2,3," -> three items: some files have a comma at the end.
std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> items;
  while (!text.empty() && items.size() <= kMostItems) {
    const std::size_t end = std::min(text.find(separator), text.size());
    items.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return items;
}

}  // namespace

const CfgEntry* CfgReader::find(const std::string& key) {
  known_.push_back(key);
  const auto found = std::find_if(section_.entries.begin(), section_.entries.end(),
                                  [&](const CfgEntry& entry) { return entry.key == key; });
  return found == section_.entries.end() ? nullptr : &*found;
}

const CfgEntry& CfgReader::require(const std::string& key) {
  const CfgEntry* entry = find(key);
  if (entry == nullptr) {
    fail(key, fmt::format("{} is missing", key), fmt::format("add {}=...", key));
  }
  return *entry;
}

void CfgReader::fail(const std::string& key, const std::string& what, const std::string& fix) {
  const CfgEntry* entry = find(key);
  throw Error(what, fix)
      .at(__FILE__, __LINE__)
      .add_where(fmt::format("line {}", entry != nullptr ? entry->line : section_.line))
      .add_where(place_);
}

std::int64_t CfgReader::to_integer(const CfgEntry& entry, std::string_view text, Range range) {
  const std::optional<std::int64_t> value = parse<std::int64_t>(text);
  if (!value || static_cast<double>(*value) < range.low ||
      static_cast<double>(*value) > range.high) {
    fail(entry.key,
         fmt::format("{} is '{}', not a whole number from {} to {}", entry.key, text, range.low,
                     range.high),
         "correct the value");
  }
  return *value;
}

double CfgReader::to_number(const CfgEntry& entry, std::string_view text, Range range) {
  const std::optional<double> value = parse<double>(text);
  if (!value || !std::isfinite(*value) || *value < range.low || *value > range.high) {
    fail(entry.key,
         fmt::format("{} is '{}', not a number from {} to {}", entry.key, text, range.low,
                     range.high),
         "correct the value");
  }
  return *value;
}

std::int64_t CfgReader::integer(const std::string& key,
                                std::optional<std::int64_t> fallback,
                                Range range) {
  const CfgEntry* entry = fallback ? find(key) : &require(key);
  return entry == nullptr ? *fallback : to_integer(*entry, entry->value, range);
}

double CfgReader::number(const std::string& key, double fallback, Range range) {
  const CfgEntry* entry = find(key);
  return entry == nullptr ? fallback : to_number(*entry, entry->value, range);
}

std::vector<std::int64_t> CfgReader::integers(const std::string& key, Range range) {
  std::vector<std::int64_t> values;
  if (const CfgEntry* entry = find(key)) {
    for (const std::string_view item : split(entry->value, ',')) {
      values.push_back(to_integer(*entry, item, range));
    }
  }
  return values;
}

std::vector<double> CfgReader::numbers(const std::string& key, Range range) {
  std::vector<double> values;
  if (const CfgEntry* entry = find(key)) {
    for (const std::string_view item : split(entry->value, ',')) {
      values.push_back(to_number(*entry, item, range));
    }
  }
  return values;
}

std::size_t CfgReader::one_of(const std::string& key,
                              const std::vector<std::string>& words,
                              std::optional<std::size_t> fallback) {
  const CfgEntry* entry = fallback ? find(key) : &require(key);
  if (entry == nullptr) {
    return *fallback;
  }
  const auto found = std::find(words.begin(), words.end(), entry->value);
  if (found == words.end()) {
    const std::string near = nearest_name(entry->value, words);
    fail(key, fmt::format("{} is '{}': it can be {}", key, entry->value, fmt::join(words, ", ")),
         near.empty() ? "use one of these" : fmt::format("did you mean {}?", near));
  }
  return static_cast<std::size_t>(found - words.begin());
}

void CfgReader::leave_unused(std::string_view keys) {
  for (const std::string_view item : split(keys, ' ')) {
    const std::string key(item);
    if (const CfgEntry* entry = find(key)) {
      unused_.push_back(fmt::format("{}={}", key, entry->value));
    }
  }
}

void CfgReader::finish() const {
  for (const CfgEntry& entry : section_.entries) {
    if (std::find(known_.begin(), known_.end(), entry.key) != known_.end()) {
      continue;
    }
    const std::string near = nearest_name(entry.key, known_);
    throw Error(fmt::format("[{}] has no key '{}'", section_.kind, entry.key),
                near.empty() ? fmt::format("remove it; known are {}", fmt::join(known_, ", "))
                             : fmt::format("did you mean {}?", near))
        .at(__FILE__, __LINE__)
        .add_where(fmt::format("line {}", entry.line))
        .add_where(place_);
  }
}

}  // namespace detforge
