#include "detforge/data/voc_source.h"

#include <algorithm>

#include <fmt/format.h>

#include "detforge/core/error.h"
#include "detforge/core/files.h"
#include "detforge/data/image_files.h"
#include "detforge/data/text_file.h"

namespace detforge {
namespace {

namespace fs = std::filesystem;

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

/// Files of this extension in the folder, sorted; none if there is no such folder.
std::vector<fs::path> files_with(const fs::path& folder, const char* extension) {
  std::vector<fs::path> paths;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (lower_case(entry.path().extension().string()) == extension) {
      paths.push_back(entry.path());
    }
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

/// "name -1", as in the sets of one class; but an id may end like that.
std::string id_of_line(std::string_view line, const fs::path& annotations) {
  std::string whole(line);
  std::error_code ignored;
  const std::size_t last = line.find_last_of(" \t");
  if (last == std::string_view::npos || fs::exists(annotations / (whole + ".xml"), ignored)) {
    return whole;
  }
  const std::string_view flag = line.substr(last + 1);
  return flag == "1" || flag == "0" || flag == "-1" ? std::string(trimmed(line.substr(0, last)))
                                                    : whole;
}

VocSource open_set(const fs::path& list, const fs::path& root) {
  VocSource out{.entries = {}, .image_folder = root / "JPEGImages"};
  const fs::path annotations = root / "Annotations";
  const std::string bytes = files::read(list);
  try {
    for (const std::string_view line : lines_of(plain_text(bytes))) {
      if (!line.empty()) {
        const std::string id = id_of_line(line, annotations);
        out.entries.push_back({.id = id, .xml = annotations / (id + ".xml")});
      }
    }
  } catch (Error& error) {
    error.add_where(list.string());
    throw;
  }
  return out;
}

VocSource open_xml_folder(const fs::path& folder, const fs::path& images) {
  VocSource out{.entries = {}, .image_folder = images};
  for (const fs::path& path : files_with(folder, ".xml")) {
    out.entries.push_back({.id = path.stem().string(), .xml = path});
  }
  return out;
}

VocSource open_root(const fs::path& root, const std::string& split) {
  const fs::path sets = root / "ImageSets" / "Main";
  if (!is_folder(sets)) {
    return open_xml_folder(root / "Annotations", root / "JPEGImages");
  }
  const fs::path list = sets / (split + ".txt");
  if (!fs::exists(list)) {
    std::vector<std::string> there;
    for (const fs::path& path : files_with(sets, ".txt")) {
      there.push_back(path.stem().string());
    }
    throw Error(
        fmt::format("there is no image set \"{}\"", split),
        fmt::format("choose one with {}:NAME, from: {}", root.string(), fmt::join(there, ", ")))
        .add_where(sets.string())
        .at(__FILE__, __LINE__);
  }
  return open_set(list, root);
}

VocSource open(const SplitSource& source) {
  if (is_folder(source.path / "Annotations")) {
    return open_root(source.path, source.split);
  }
  if (is_folder(source.path)) {
    return open_xml_folder(source.path, source.path);
  }
  // ROOT/ImageSets/Main/NAME.txt
  const fs::path root = source.path.parent_path() / ".." / "..";
  DETFORGE_CHECK(is_folder(root / "Annotations"),
                 fmt::format("{} is no VOC dataset", source.path.string()),
                 "give the folder that holds Annotations and JPEGImages, a list in its "
                 "ImageSets/Main, or a folder of XML files");
  return open_set(source.path, root.lexically_normal());
}

}  // namespace

VocSource open_voc_source(const std::string& source, const CocoLoadOptions& options) {
  VocSource out = open(parse_source(source, options.split));
  DETFORGE_CHECK(!out.entries.empty(), "there is no annotation in " + source,
                 "give the folder that holds Annotations and JPEGImages, a list in its "
                 "ImageSets/Main, or a folder of XML files");
  return out;
}

}  // namespace detforge
