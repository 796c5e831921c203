#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace detforge {

/// One `key=value` of a Darknet .cfg file.
struct CfgEntry {
  std::string key, value;
  std::int64_t line = 0;  ///< counted from 1
};

/// `[kind]` and the entries below it.
struct CfgSection {
  std::string kind;
  std::int64_t line = 0;
  std::vector<CfgEntry> entries;
};

/// Splits the text of a .cfg file into sections, as Darknet does: white space means nothing
/// anywhere, also at the end of lines written on Windows; empty lines and what follows # or ; are
/// comments (Darknet knows only whole lines of them). Keys and kinds are as written, without space.
/// Throws Error with the line: no section, an entry before the first section, a line without '=',
/// an empty name, bytes that are no text, a key twice in one section.
std::vector<CfgSection> read_cfg_sections(std::string_view text);

}  // namespace detforge
