#include "detforge/data/label_files.h"

#include <algorithm>

#include "detforge/core/error.h"
#include "detforge/data/image_files.h"

namespace detforge {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> files_in(const fs::path& folder, const std::string& extension) {
  std::vector<fs::path> paths;
  std::error_code ignored;  // a folder that is not there holds nothing
  for (const auto& entry : fs::directory_iterator(folder.empty() ? "." : folder, ignored)) {
    if (entry.path().extension() == extension && entry.is_regular_file(ignored)) {
      paths.push_back(folder / entry.path().filename());
    }
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace

void LabelFolders::add(const fs::path& image, const std::vector<fs::path>& label_candidates) {
  for (const fs::path& label : label_candidates) {
    image_folders_[label.parent_path()].insert(image.parent_path());
  }
}

void LabelFolders::report_lonely_labels(
    const std::string& extension,
    CheckReport& report,
    const std::function<bool(const fs::path&)>& is_label) const {
  FileFinder finder({});
  for (const auto& [folder, image_folders] : image_folders_) {
    for (const fs::path& label : files_in(folder, extension)) {
      const std::string stem = label.stem().string();
      const bool has_image =
          std::any_of(image_folders.begin(), image_folders.end(),
                      [&](const fs::path& images) { return finder.find_image(images, stem); });
      if (has_image || !is_label(label)) {
        continue;
      }
      report.add(CheckKind::kLabelWithoutImage, [&] {
        return CheckExample{.detail = "no image is called " + stem, .place = label.string()};
      });
    }
  }
}

std::vector<std::string> paths_text(const std::vector<fs::path>& paths) {
  std::vector<std::string> out;
  std::transform(paths.begin(), paths.end(), std::back_inserter(out),
                 [](const fs::path& path) { return path.string(); });
  return out;
}

}  // namespace detforge
