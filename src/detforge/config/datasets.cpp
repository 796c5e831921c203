#include "detforge/config/datasets.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "detforge/core/error.h"

namespace detforge {
namespace {

namespace fs = std::filesystem;

struct NamedDataset {
  const char* name;
  const char* json;
  const char* images;
};

/// Detectron2's registered COCO detection sets.
constexpr std::array kNamed = {
    NamedDataset{"coco_2017_train", "annotations/instances_train2017.json", "train2017"},
    NamedDataset{"coco_2017_val", "annotations/instances_val2017.json", "val2017"},
    NamedDataset{"coco_2017_val_100", "annotations/instances_val2017_100.json", "val2017"},
    NamedDataset{"coco_2014_train", "annotations/instances_train2014.json", "train2014"},
    NamedDataset{"coco_2014_val", "annotations/instances_val2014.json", "val2014"},
    NamedDataset{"coco_2014_minival", "annotations/instances_minival2014.json", "val2014"},
    NamedDataset{"coco_2014_valminusminival", "annotations/instances_valminusminival2014.json",
                 "val2014"},
};

std::string absolute_text(const fs::path& path) {
  return fs::absolute(path).lexically_normal().string();
}

fs::path coco_folder(const DatasetRoots& roots) {
  if (!roots.data.empty()) {
    return roots.data;
  }
  return fs::path(roots.detectron2.empty() ? "datasets" : roots.detectron2) / "coco";
}

const NamedDataset& find_named(const std::string& name, const std::string& key) {
  const auto found =
      std::find_if(kNamed.begin(), kNamed.end(), [&](const auto& set) { return name == set.name; });
  if (found == kNamed.end()) {
    Strings names;
    for (const auto& set : kNamed) {
      names.emplace_back(set.name);
    }
    Error error("unknown dataset \"" + name + "\"",
                fmt::format("give files in {0}_JSON and {0}_IMAGES, or one of {1}", key,
                            fmt::join(names, ", ")),
                Error::Kind::kUsage);
    error.add_where(key);
    throw error;
  }
  return *found;
}

void resolve(const Strings& names,
             const std::string& key,
             const DatasetRoots& roots,
             Strings& jsons,
             Strings& folders) {
  if (jsons.empty()) {
    for (const auto& name : names) {
      const NamedDataset& set = find_named(name, key);
      jsons.push_back(absolute_text(coco_folder(roots) / set.json));
      folders.push_back(absolute_text(coco_folder(roots) / set.images));
    }
    return;
  }
  for (Strings* paths : {&jsons, &folders}) {
    for (auto& path : *paths) {
      path = absolute_text(fs::path(roots.data) / path);
    }
  }
}

}  // namespace

void resolve_datasets(Config& config, const DatasetRoots& roots) {
  DatasetsConfig& sets = config.datasets;
  resolve(sets.train, "DATASETS.TRAIN", roots, sets.train_json, sets.train_images);
  resolve(sets.test, "DATASETS.TEST", roots, sets.test_json, sets.test_images);
}

}  // namespace detforge
