#include "detforge/eval/category_map.h"

#include <map>
#include <set>

#include <fmt/format.h>

#include "detforge/core/error.h"

namespace detforge {

CategoryMap match_categories(std::span<const std::string> class_names,
                             std::span<const EvalCategory> categories) {
  std::map<std::string, std::int64_t> id_of_name;
  for (const EvalCategory& category : categories) {
    DETFORGE_CHECK(
        id_of_name.emplace(category.name, category.id).second,
        fmt::format("the category name \"{}\" occurs twice in the data set", category.name),
        "give categories different names in the annotation file");
  }
  CategoryMap map;
  std::set<std::string> known;
  for (const std::string& name : class_names) {
    DETFORGE_CHECK(known.insert(name).second,
                   fmt::format("the class name \"{}\" occurs twice in the model", name),
                   "give the checkpoint's classes different names");
    const auto found = id_of_name.find(name);
    map.id_of_label.push_back(found == id_of_name.end() ? std::nullopt
                                                        : std::optional(found->second));
    if (found == id_of_name.end()) {
      map.only_in_model.push_back(name);
    }
  }
  for (const EvalCategory& category : categories) {
    if (!known.contains(category.name)) {
      map.only_in_data.push_back(category.name);
    }
  }
  DETFORGE_CHECK(
      map.only_in_model.size() < class_names.size() || class_names.empty(),
      "the model and the data set have no class name in common",
      "evaluate on a data set with the model's classes, or check the spelling of the names");
  return map;
}

}  // namespace detforge
