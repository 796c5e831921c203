#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "detforge/config/load.h"
#include "detforge/core/error.h"
#include "detforge/core/files.h"
#include "support/test_data.h"

namespace detforge::test {

inline std::string fpn_base() {
  return (source_dir() / "configs" / "Base-RCNN-FPN.yaml").string();
}

struct Recipe {
  std::filesystem::path file;
  Config config;
};

/// Every recipe of the repository, loaded; one that needs a .cfg file is given a name for it.
inline std::vector<Recipe> every_recipe() {
  std::vector<Recipe> recipes;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(source_dir() / "configs")) {
    if (entry.path().extension() == ".yaml") {
      const bool needs_cfg = entry.path().filename() == "Base-Darknet.yaml";
      recipes.push_back(
          {entry.path(),
           load_config(entry.path(), needs_cfg
                                         ? std::vector<std::string>{"MODEL.DARKNET.CFG", "net.cfg"}
                                         : std::vector<std::string>{})});
    }
  }
  return recipes;
}

/// A folder with recipes written by the test.
class ConfigFolder {
 public:
  /// Writes `name` and returns its path.
  std::string write(const std::string& name, const std::string& text) const {
    files::write_atomic(folder_ / name, text);
    return (folder_ / name).string();
  }
  /// The same with Base-RCNN-FPN.yaml as `_BASE_` in line 1, so that `text` starts in line 2.
  std::string write_recipe(const std::string& name, const std::string& text) const {
    return write(name, "_BASE_: " + fpn_base() + "\n" + text);
  }

 private:
  TemporaryFolder folder_;
};

/// what() of the usage Error that loading gives; "no error" or "not a usage error: ..." otherwise.
inline std::string load_error(const std::string& file,
                              const std::vector<std::string>& overrides = {}) {
  try {
    load_config(file, overrides);
  } catch (const Error& e) {
    return e.kind() == Error::Kind::kUsage ? e.what()
                                           : std::string("not a usage error: ") + e.what();
  }
  return "no error";
}

}  // namespace detforge::test
