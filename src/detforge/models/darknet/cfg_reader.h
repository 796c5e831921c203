#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "detforge/models/darknet/cfg_text.h"

namespace detforge {

/// Reads the entries of one section by type and keeps account of them, so that none is overlooked.
/// Every accessor throws Error with key, value and line for a value of another type or out of
/// range.
///   CfgReader reader(section, "layer 3 [convolutional], line 40");
///   spec.filters = reader.integer("filters", 1, {1, kMost});
///   reader.leave_unused("stopbackward clip");
///   reader.finish();  // an Error for every other key
class CfgReader {
 public:
  struct Range {
    double low, high;  ///< both allowed
  };

  /// Borrows `section`. `place` is for messages.
  CfgReader(const CfgSection& section, std::string place)
      : section_(section), place_(std::move(place)) {}

  /// Without a fallback the key must be there.
  std::int64_t integer(const std::string& key, std::optional<std::int64_t> fallback, Range range);
  double number(const std::string& key, double fallback, Range range);
  bool flag(const std::string& key) { return integer(key, 0, {0, 1}) == 1; }
  /// Numbers separated by commas; empty without the key. At most 4096.
  std::vector<std::int64_t> integers(const std::string& key, Range range);
  std::vector<double> numbers(const std::string& key, Range range);
  /// Position of the value in `words`; without a fallback the key must be there.
  std::size_t one_of(const std::string& key,
                     const std::vector<std::string>& words,
                     std::optional<std::size_t> fallback);

  /// Keys, separated by single spaces, that Darknet knows and this program does not need; those
  /// that are there are unused().
  void leave_unused(std::string_view keys);
  /// Throws Error for a key that was neither read nor left, naming the nearest that is known.
  void finish() const;

  /// "key=value", in the order of leave_unused().
  const std::vector<std::string>& unused() const { return unused_; }
  /// Throws an Error at the key's line, or at the section's if it is not there.
  [[noreturn]] void fail(const std::string& key, const std::string& what, const std::string& fix);

 private:
  const CfgEntry* find(const std::string& key);
  const CfgEntry& require(const std::string& key);
  std::int64_t to_integer(const CfgEntry& entry, std::string_view text, Range range);
  double to_number(const CfgEntry& entry, std::string_view text, Range range);

  const CfgSection& section_;
  std::string place_;
  std::vector<std::string> known_, unused_;
};

}  // namespace detforge
