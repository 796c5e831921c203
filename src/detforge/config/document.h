#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <yaml-cpp/yaml.h>

/// Config files and command line overrides as one flat list of keys, values and places.
namespace detforge::config {

struct Entry {
  std::string key;  ///< full name, not yet known to exist
  YAML::Node value;
  std::string place;  ///< "configs/shapes.yaml:12" or "command line"
};

/// The file's entries in file order, after those of the file that its `_BASE_` names (relative to
/// it), and so on. Throws Error (usage) with file and line for: unreadable files, broken YAML, a
/// key given twice in one file, a scalar where a section belongs, and files that name each other as
/// `_BASE_`.
std::vector<Entry> read_entries(const std::filesystem::path& file);

/// As read_entries for a config without `_BASE_` that is not in a file of its own; `name` is for
/// messages.
std::vector<Entry> entries_of_text(const std::string& text, const std::filesystem::path& name);

/// KEY VALUE KEY VALUE ...; KEY=VALUE is accepted too. Throws Error (usage) if a value is missing.
std::vector<Entry> entries_of_words(const std::vector<std::string>& words);

}  // namespace detforge::config
