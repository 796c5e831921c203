#include "detforge/data/class_names.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include "detforge/core/error.h"
#include "detforge/core/files.h"
#include "detforge/core/nearest_name.h"
#include "detforge/data/text_file.h"

namespace detforge {
namespace {

/// Runs `read` on the text of the file; errors that do not name the file yet get its name.
template <typename Read>
auto with_text(const std::filesystem::path& path, Read&& read) {
  const std::string bytes = files::read(path);
  try {
    return read(plain_text(bytes));
  } catch (Error& error) {
    error.add_where(path.string());
    throw;
  }
}

std::vector<std::string> text_list(const YAML::Node& node) {
  std::vector<std::string> out;
  if (node.IsScalar()) {
    out.push_back(node.as<std::string>());
  }
  for (std::size_t i = 0; node.IsSequence() && i < node.size(); ++i) {
    out.push_back(node[i].as<std::string>());
  }
  return out;
}

/// names: [a, b], or names: {0: a, 1: b} in any order.
std::vector<std::string> class_list(const YAML::Node& node) {
  if (!node.IsMap()) {
    return node.IsSequence() ? text_list(node) : std::vector<std::string>{};
  }
  std::vector<std::string> names(node.size());
  std::vector<bool> given(node.size());
  for (const auto& entry : node) {
    const auto key = entry.first.as<std::string>();
    std::size_t index = names.size();
    std::from_chars(key.data(), key.data() + key.size(), index);
    DETFORGE_CHECK(
        index < names.size() && !given[index],
        fmt::format("\"names\" has the class number {} among {} classes", key, names.size()),
        "number the classes from 0, without gaps");
    names[index] = entry.second.as<std::string>();
    given[index] = true;
  }
  return names;
}

DataYaml parse_data_yaml(std::string_view text) {
  DataYaml out;
  const YAML::Node node = YAML::Load(std::string(text));
  DETFORGE_CHECK(node.IsMap(), "the file is no list of keys",
                 "write path, train, val and names, as Ultralytics does");
  for (const auto& entry : node) {
    const auto key = entry.first.as<std::string>();
    if (key == "path") {
      out.root = entry.second.IsNull() ? "" : entry.second.as<std::string>();
    } else if (key == "names") {
      out.names = class_list(entry.second);
    } else if (key != "nc" && (entry.second.IsScalar() || entry.second.IsSequence())) {
      out.splits[key] = text_list(entry.second);
    }
  }
  DETFORGE_CHECK(!out.names.empty(), "the file has no class names under \"names\"",
                 "write names: [first, second, ...]");
  if (const YAML::Node count = node["nc"]) {
    const auto nc = count.as<std::int64_t>();
    DETFORGE_CHECK(nc == static_cast<std::int64_t>(out.names.size()),
                   fmt::format("nc is {}, but there are {} names", nc, out.names.size()),
                   "make them agree");
  }
  return out;
}

}  // namespace

std::vector<std::string> read_names_file(const std::filesystem::path& path) {
  return with_text(path, [](std::string_view text) {
    std::vector<std::string_view> lines = lines_of(text);
    while (!lines.empty() && lines.back().empty()) {
      lines.pop_back();
    }
    DETFORGE_CHECK(!lines.empty(), "the file has no class names", "write one name a line");
    const auto gap = std::find(lines.begin(), lines.end(), "");
    DETFORGE_CHECK(gap == lines.end(),
                   fmt::format("line {} is empty: class {} has no name", gap - lines.begin() + 1,
                               gap - lines.begin()),
                   "remove the line, or write the name");
    return std::vector<std::string>(lines.begin(), lines.end());
  });
}

DataYaml read_data_yaml(const std::filesystem::path& path) {
  return with_text(path, [](std::string_view text) {
    try {
      return parse_data_yaml(text);
    } catch (const YAML::Exception& error) {
      throw Error(fmt::format("broken YAML: {}", error.what()), "correct the file")
          .at(__FILE__, __LINE__);
    }
  });
}

std::map<std::string, std::string> read_darknet_data(const std::filesystem::path& path) {
  return with_text(path, [](std::string_view text) {
    std::map<std::string, std::string> values;
    const auto lines = lines_of(text);
    for (std::size_t i = 0; i < lines.size(); ++i) {
      if (lines[i].empty() || lines[i].starts_with('#') || lines[i].starts_with(';')) {
        continue;
      }
      const std::size_t equals = lines[i].find('=');
      DETFORGE_CHECK(equals != std::string_view::npos,
                     fmt::format("line {} is \"{}\"", i + 1, excerpt(lines[i])),
                     "write KEY = VALUE, as: train = data/train.txt");
      values[std::string(trimmed(lines[i].substr(0, equals)))] =
          std::string(trimmed(lines[i].substr(equals + 1)));
    }
    return values;
  });
}

std::string with_nearest(const std::string& name, const std::vector<std::string>& candidates) {
  const std::string near = nearest_name(name, candidates);
  return near.empty() ? name : fmt::format("{} (did you mean {}?)", name, near);
}

}  // namespace detforge
