#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "detforge/data/checks.h"

namespace detforge {

/// The folders in which the label files of a dataset lie, with those of their images: finds label
/// files whose image is gone.
class LabelFolders {
 public:
  /// An image and where its label file may be.
  void add(const std::filesystem::path& image,
           const std::vector<std::filesystem::path>& label_candidates);

  /// Reports kLabelWithoutImage for each file `*extension` in the label folders to which no image
  /// of the same name belongs (on disk: it may be one of another image set), if `is_label` says so.
  void report_lonely_labels(
      const std::string& extension,
      CheckReport& report,
      const std::function<bool(const std::filesystem::path&)>& is_label) const;

 private:
  std::map<std::filesystem::path, std::set<std::filesystem::path>> image_folders_;
};

/// The paths as text, for messages.
std::vector<std::string> paths_text(const std::vector<std::filesystem::path>& paths);

}  // namespace detforge
