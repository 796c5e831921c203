#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace detforge {

/// A file of class names, one a line, the first is class 0: Darknet's .names, LabelImg's
/// classes.txt. Any line ends, byte order mark or none; empty lines at the end are no names. Throws
/// Error naming the file (and line) if it is empty, has an empty line inside or is UTF-16.
std::vector<std::string> read_names_file(const std::filesystem::path& path);

/// Ultralytics' data.yaml. Paths are as written.
struct DataYaml {
  std::string root = {};                                        ///< "path"; may be empty
  std::map<std::string, std::vector<std::string>> splits = {};  ///< train, val, test, ...
  std::vector<std::string> names = {};                          ///< by class number
};

/// Throws Error naming the file for broken YAML, for names that are neither a list nor a map from
/// 0 to K-1, and if "nc" is not their number.
DataYaml read_data_yaml(const std::filesystem::path& path);

/// Darknet's obj.data: KEY = VALUE a line; values are as written. Throws Error naming file and line
/// for anything else.
std::map<std::string, std::string> read_darknet_data(const std::filesystem::path& path);

/// A class that was not found, for messages: "Car (did you mean car?)", or just the name.
std::string with_nearest(const std::string& name, const std::vector<std::string>& candidates);

}  // namespace detforge
