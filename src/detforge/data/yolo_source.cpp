#include "detforge/data/yolo_source.h"

#include <algorithm>

#include <fmt/format.h>

#include "detforge/core/error.h"
#include "detforge/core/files.h"
#include "detforge/core/log.h"
#include "detforge/data/class_names.h"
#include "detforge/data/image_files.h"
#include "detforge/data/text_file.h"

namespace detforge {
namespace {

namespace fs = std::filesystem;

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

/// The keys that a split may have: Darknet says "valid", Ultralytics "val", others "validation".
std::vector<std::string> split_keys(const std::string& split) {
  std::vector<std::string> keys = {split};
  if (split == "val" || split == "valid" || split == "validation") {
    keys = {split, "val", "valid", "validation"};
  }
  return keys;
}

[[noreturn]] void no_split(const fs::path& file,
                           const std::string& split,
                           const std::vector<std::string>& there) {
  throw Error(
      fmt::format("the file has no image set \"{}\"", split),
      fmt::format("choose one with {}:NAME, from: {}", file.string(),
                  there.empty() ? "none is there" : fmt::format("{}", fmt::join(there, ", "))))
      .add_where(file.string())
      .at(__FILE__, __LINE__);
}

/// Class names that lie beside the images or their list under one of the usual names.
std::vector<std::string> names_beside(const std::vector<fs::path>& folders) {
  for (const fs::path& folder : folders) {
    for (const char* name : {"classes.txt", "obj.names", "classes.names", "_darknet.labels",
                             "predefined_classes.txt", "data.yaml"}) {
      const fs::path path = (folder / name).lexically_normal();
      if (!is_there(path)) {
        continue;
      }
      log::info("Class names are from {}", path.string());
      return path.extension() == ".yaml" ? read_data_yaml(path).names : read_names_file(path);
    }
  }
  return {};
}

class Opener {
 public:
  explicit Opener(const CocoLoadOptions& options) : options_(options) {}
  YoloSource open(const SplitSource& source);

 private:
  void open_folder(const fs::path& folder);
  void open_list(const fs::path& list, const std::vector<fs::path>& bases);
  void open_yaml(const fs::path& file, const std::string& split);
  void open_data(const fs::path& file, const std::string& split);
  void find_names(const SplitSource& source);

  const CocoLoadOptions& options_;
  YoloSource out_;
};

YoloSource Opener::open(const SplitSource& source) {
  const std::string extension = lower_case(source.path.extension().string());
  if (is_folder(source.path) && is_there(source.path / "data.yaml")) {
    open_yaml(source.path / "data.yaml", source.split);
  } else if (is_folder(source.path)) {
    open_folder(source.path);
  } else if (extension == ".yaml" || extension == ".yml") {
    open_yaml(source.path, source.split);
  } else if (extension == ".data") {
    open_data(source.path, source.split);
  } else {
    open_list(source.path, {});
  }
  DETFORGE_CHECK(!out_.images.empty(), "there is no image in " + source.path.string(),
                 "give a folder of images, a list of their paths, a data.yaml or a .data file");
  if (out_.class_names.empty()) {
    find_names(source);
  }
  return std::move(out_);
}

void Opener::open_folder(const fs::path& folder) {
  for (fs::path& path : images_below(folder)) {
    out_.images.push_back({.written = path.string(),
                           .path = path,
                           .found = true,
                           .as_written = true,
                           .label_candidates = label_candidates(path)});
  }
}

void Opener::open_list(const fs::path& list, const std::vector<fs::path>& bases) {
  std::vector<fs::path> folders;
  if (!options_.image_root.empty()) {
    folders.emplace_back(options_.image_root);
  }
  folders.push_back(list.parent_path());
  folders.insert(folders.end(), bases.begin(), bases.end());
  folders.emplace_back("");  // the working directory
  FileFinder finder(std::move(folders));
  const std::string bytes = files::read(list);
  try {
    for (const std::string_view line : lines_of(plain_text(bytes))) {
      if (line.empty()) {
        continue;
      }
      std::string slashes(line);
      std::replace(slashes.begin(), slashes.end(), '\\', '/');
      const fs::path expected = (list.parent_path() / slashes).lexically_normal();
      YoloImage image{.written = std::string(line), .path = expected};
      if (auto found = finder.find(line)) {
        image.path = std::move(found->path);
        image.found = true;
        image.as_written = found->as_written;
      }
      image.label_candidates = label_candidates(image.path);
      if (image.path != expected) {  // labels may stand where the list says although images do not
        const auto more = label_candidates(expected);
        image.label_candidates.insert(image.label_candidates.end(), more.begin(), more.end());
      }
      out_.images.push_back(std::move(image));
    }
  } catch (Error& error) {
    error.add_where(list.string());
    throw;
  }
}

/// Ultralytics looks below "path", which may be meant relative to the file or to the working
/// directory; Roboflow's files say ../train/images where train/images is meant.
/// An entry as written; written on Windows; and its ends, for a dataset from another machine.
std::vector<std::string> spellings(const std::string& entry) {
  std::vector<std::string> out{entry};
  std::string slashes = entry;
  std::replace(slashes.begin(), slashes.end(), '\\', '/');
  if (slashes != entry) {
    out.push_back(slashes);
  }
  for (auto at = slashes.find('/'); at != std::string::npos; at = slashes.find('/', at + 1)) {
    if (at + 1 < slashes.size()) {
      out.push_back(slashes.substr(at + 1));
    }
  }
  return out;
}

void Opener::open_yaml(const fs::path& file, const std::string& split) {
  const DataYaml yaml = read_data_yaml(file);
  out_.class_names = yaml.names;
  const auto keys = split_keys(split);
  const auto key = std::find_if(keys.begin(), keys.end(), [&](const std::string& name) {
    return yaml.splits.contains(name) && !yaml.splits.at(name).empty();
  });
  if (key == keys.end()) {
    std::vector<std::string> there;
    for (const auto& entry : yaml.splits) {
      there.push_back(entry.first);
    }
    no_split(file, split, there);
  }
  const fs::path beside = file.parent_path();
  const std::vector<fs::path> roots = {beside / yaml.root, yaml.root, beside, ""};
  for (const std::string& entry : yaml.splits.at(*key)) {
    std::vector<fs::path> candidates;
    for (const std::string& spelling : spellings(entry)) {
      for (const fs::path& root : roots) {
        candidates.push_back(root / spelling);
      }
    }
    const auto path = std::find_if(candidates.begin(), candidates.end(), is_there);
    if (path == candidates.end()) {
      throw Error(fmt::format("\"{}\" of {} is not there: looked for {}", entry, *key,
                              candidates.front().string()),
                  "correct \"path\", or give the folder of images itself as the source")
          .add_where(file.string())
          .at(__FILE__, __LINE__);
    }
    if (static_cast<std::size_t>(path - candidates.begin()) >= roots.size()) {
      log::info("{}: \"{}\" of {} is taken for {}", file.string(), entry, *key, path->string());
    }
    is_folder(*path) ? open_folder(path->lexically_normal()) : open_list(*path, roots);
  }
}

void Opener::open_data(const fs::path& file, const std::string& split) {
  const auto values = read_darknet_data(file);
  const auto keys = split_keys(split);
  const auto key = std::find_if(keys.begin(), keys.end(),
                                [&](const std::string& name) { return values.contains(name); });
  if (key == keys.end()) {
    std::vector<std::string> there;
    for (const char* name : {"train", "valid", "test"}) {
      if (values.contains(name)) {
        there.emplace_back(name);
      }
    }
    no_split(file, split, there);
  }
  // Darknet runs in the folder above data/: its paths are relative to the working directory.
  FileFinder finder({"", file.parent_path(), file.parent_path() / ".."});
  const auto find = [&](const std::string& name) {
    const auto found = finder.find(values.at(name));
    if (!found) {
      throw Error(fmt::format("\"{}\" of {} is not there", values.at(name), name),
                  "start in the folder that the path is relative to, or correct it")
          .add_where(file.string())
          .at(__FILE__, __LINE__);
    }
    return found->path;
  };
  if (values.contains("names")) {
    out_.class_names = read_names_file(find("names"));
    if (values.contains("classes")) {
      const auto classes = parse_number(values.at("classes"));
      DETFORGE_CHECK(classes == static_cast<double>(out_.class_names.size()),
                     fmt::format("{} says {} classes, but {} has {} names", file.string(),
                                 values.at("classes"), values.at("names"), out_.class_names.size()),
                     "make them agree");
    }
  }
  open_list(find(*key), {file.parent_path() / ".."});
}

/// Names from beside the source, its images and its labels, else those of the options.
void Opener::find_names(const SplitSource& source) {
  std::vector<fs::path> folders = {is_folder(source.path) ? source.path
                                                          : source.path.parent_path()};
  // labels/classes.txt or classes.txt beside labels/, for labels in labels/train/.
  for (const fs::path& label : out_.images.front().label_candidates) {
    const fs::path folder = label.parent_path();
    folders.insert(folders.end(), {folder, folder / "..", folder / ".." / ".."});
  }
  out_.class_names = names_beside(folders);
  if (out_.class_names.empty()) {
    out_.class_names = options_.class_names;
  }
  DETFORGE_CHECK(
      !out_.class_names.empty(),
      fmt::format("the classes of {} have no names", source.path.string()),
      fmt::format("put classes.txt (one name a line) into {}, list the classes, or give a "
                  "data.yaml or .data file as the source",
                  folders[0].empty() ? "." : folders[0].string()));
}

}  // namespace

std::vector<fs::path> label_candidates(const fs::path& image) {
  fs::path beside = image;
  beside.replace_extension(".txt");
  std::vector<fs::path> parts(beside.begin(), beside.end());
  std::vector<fs::path> out;
  for (const char* folder : {"images", "JPEGImages"}) {
    const auto last = std::find(parts.rbegin(), parts.rend(), folder);
    if (last == parts.rend() || last == parts.rbegin()) {
      continue;
    }
    std::vector<fs::path> replaced = parts;
    replaced[static_cast<std::size_t>(parts.rend() - last) - 1] = "labels";
    fs::path path;
    for (const fs::path& part : replaced) {
      path /= part;
    }
    out.push_back(std::move(path));
  }
  out.push_back(std::move(beside));
  return out;
}

YoloSource open_yolo_source(const std::string& source, const CocoLoadOptions& options) {
  return Opener(options).open(parse_source(source, options.split));
}

}  // namespace detforge
