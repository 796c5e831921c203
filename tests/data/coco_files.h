#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "detforge/core/error.h"
#include "detforge/core/files.h"
#include "detforge/data/coco_store.h"
#include "support/test_data.h"

namespace detforge::test {

using Json = nlohmann::ordered_json;

/// One 100 x 100 image (id 1, a.png) and categories 1 "cell" and 2 "dot"; annotations to be added.
inline Json coco_skeleton() {
  return {{"images", {{{"id", 1}, {"file_name", "a.png"}, {"height", 100}, {"width", 100}}}},
          {"annotations", Json::array()},
          {"categories", {{{"id", 1}, {"name", "cell"}}, {{"id", 2}, {"name", "dot"}}}}};
}

inline Json annotation(std::int64_t id, const Json& bbox) {
  return {{"id", id},     {"image_id", 1}, {"category_id", 1},
          {"bbox", bbox}, {"area", 1.0},   {"iscrowd", 0}};
}

/// The skeleton's 100 x 100 image with boxes, ids from 1.
inline Json with_boxes(const std::vector<Json>& boxes) {
  Json json = coco_skeleton();
  for (const Json& box : boxes) {
    json["annotations"].push_back(
        annotation(static_cast<std::int64_t>(json["annotations"].size()) + 1, box));
  }
  return json;
}

/// Writes the JSON to a temporary file and loads it; the report can be looked at afterwards.
struct LoadedCoco {
  TemporaryFolder folder;
  CheckReport report;
  std::shared_ptr<const CocoStore> store;

  explicit LoadedCoco(const std::string& text,
                      CheckPolicy policy = {},
                      CocoLoadOptions options = {})
      : report(policy) {
    files::write_atomic(folder / "gt.json", text);
    store = load_coco((folder / "gt.json").string(), options, report);
  }
  explicit LoadedCoco(const Json& json, CheckPolicy policy = {}, CocoLoadOptions options = {})
      : LoadedCoco(json.dump(), policy, std::move(options)) {}
};

/// Which annotations serve for training, in the order of the store.
inline std::vector<bool> usable(const LoadedCoco& coco) {
  std::vector<bool> out;
  for (const CocoAnnotation& a : coco.store->annotations()) {
    out.push_back(a.usable);
  }
  return out;
}

/// The text of the Error that `action` throws; empty if it throws none.
template <typename Action>
std::string error_of(Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace detforge::test
