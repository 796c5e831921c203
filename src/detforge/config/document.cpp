#include "detforge/config/document.h"

#include <algorithm>
#include <map>

#include "detforge/config/schema.h"
#include "detforge/config/suggest.h"
#include "detforge/config/value.h"
#include "detforge/core/error.h"
#include "detforge/core/files.h"

namespace detforge::config {
namespace {

namespace fs = std::filesystem;
constexpr const char* kBaseKey = "_BASE_";
constexpr const char* kCommandLine = "command line";

Error usage_error(const std::string& what, const std::string& fix, const std::string& place) {
  Error error(what, fix, Error::Kind::kUsage);
  error.add_where(place);
  return error;
}

std::string place_of(const fs::path& file, const YAML::Mark& mark) {
  return file.string() + ":" + std::to_string(mark.line + 1);
}

/// `file` is for messages.
YAML::Node parse_yaml(const std::string& text, const fs::path& file) {
  std::vector<YAML::Node> documents;
  try {
    documents = YAML::LoadAll(text);
  } catch (const YAML::Exception& e) {
    throw usage_error("not valid YAML: " + e.msg, "check indentation, colons and quotes",
                      place_of(file, e.mark));
  }
  if (documents.empty() || (documents.size() == 1 && documents[0].IsNull())) {
    return YAML::Node(YAML::NodeType::Map);
  }
  if (documents.size() > 1 || !documents[0].IsMap()) {
    throw usage_error("a config file is one YAML document of KEY: VALUE lines",
                      "see configs/ for examples", file.string());
  }
  return documents[0];
}

YAML::Node load_yaml(const fs::path& file) {
  std::string text;
  try {
    text = files::read(file);
  } catch (const Error& e) {
    throw usage_error(e.message(), e.fix(), e.where());
  }
  return parse_yaml(text, file);
}

/// Collects the leaves of one map. `prefix` is "" or ends with a dot.
void flatten(const YAML::Node& map,
             const std::string& prefix,
             const fs::path& file,
             std::vector<Entry>& out) {
  std::map<std::string, int> line_of;
  for (const auto& pair : map) {
    const std::string place = place_of(file, pair.first.Mark());
    if (!pair.first.IsScalar()) {
      throw usage_error("a key must be a plain word", "see configs/ for examples", place);
    }
    const std::string key = prefix + pair.first.Scalar();
    const auto [earlier, is_new] = line_of.emplace(key, pair.first.Mark().line + 1);
    if (!is_new) {
      throw usage_error(
          "duplicate key " + key,
          "it is already in line " + std::to_string(earlier->second) + ": keep one of them", place);
    }
    const bool section = is_section(key);
    if (pair.second.IsMap() && (section || find_key(key) == nullptr)) {
      flatten(pair.second, key + ".", file, out);
      if (!section && pair.second.size() == 0) {
        throw usage_error("unknown section " + key, suggest(key), place);
      }
    } else if (section && !pair.second.IsNull()) {
      throw usage_error(key + " is a section, not a key", "put its keys below it, indented", place);
    } else if (!section) {
      out.push_back({key, pair.second, place});
    }
  }
}

std::vector<Entry> read_chain(const fs::path& file, std::vector<fs::path>& open_files) {
  const fs::path canonical = fs::weakly_canonical(file);
  if (std::find(open_files.begin(), open_files.end(), canonical) != open_files.end()) {
    throw usage_error("_BASE_ leads back to the file itself", "remove one _BASE_ of the circle",
                      file.string());
  }
  open_files.push_back(canonical);
  std::vector<Entry> own, entries;
  flatten(load_yaml(file), "", file, own);
  for (const Entry& entry : own) {
    if (entry.key != kBaseKey) {
      continue;
    }
    if (!entry.value.IsScalar() || entry.value.Scalar().empty()) {
      throw usage_error("_BASE_ must be the path of one file",
                        "for example: _BASE_: ../Base-RCNN-FPN.yaml", entry.place);
    }
    try {
      entries = read_chain(file.parent_path() / entry.value.Scalar(), open_files);
    } catch (Error& e) {
      e.add_where(entry.place);
      throw;
    }
  }
  std::copy_if(own.begin(), own.end(), std::back_inserter(entries),
               [](const Entry& e) { return e.key != kBaseKey; });
  return entries;
}

Entry entry_of_words(const std::string& key, const std::string& value) {
  try {
    return {key, node_of_word(value), kCommandLine};
  } catch (const YAML::Exception&) {
    throw usage_error("brackets or quotes do not match in " + key + " " + value, "", kCommandLine);
  }
}

}  // namespace

std::vector<Entry> read_entries(const fs::path& file) {
  std::vector<fs::path> open_files;
  return read_chain(file, open_files);
}

std::vector<Entry> entries_of_text(const std::string& text, const fs::path& name) {
  std::vector<Entry> entries;
  flatten(parse_yaml(text, name), "", name, entries);
  return entries;
}

std::vector<Entry> entries_of_words(const std::vector<std::string>& words) {
  std::vector<Entry> entries;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::size_t equals = words[i].find('=');
    if (equals != std::string::npos) {
      entries.push_back(entry_of_words(words[i].substr(0, equals), words[i].substr(equals + 1)));
    } else if (i + 1 < words.size()) {
      entries.push_back(entry_of_words(words[i], words[i + 1]));
      ++i;
    } else {
      throw usage_error("no value for " + words[i], "overrides are pairs: KEY VALUE KEY VALUE",
                        kCommandLine);
    }
  }
  return entries;
}

}  // namespace detforge::config
