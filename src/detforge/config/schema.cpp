#include "detforge/config/schema.h"

#include <algorithm>
#include <cctype>

namespace detforge::config {

std::string key_name(std::string_view member_path) {
  std::string name(member_path);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return name;
}

const std::vector<Key>& schema() {
  static const std::vector<Key> keys = [] {
    std::vector<Key> all;
    for (auto part : {model_keys(), head_keys(), yolo_keys(), data_keys(), training_keys()}) {
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }();
  return keys;
}

const Key* find_key(std::string_view name) {
  const auto& keys = schema();
  const auto found =
      std::find_if(keys.begin(), keys.end(), [&](const Key& key) { return key.name == name; });
  return found == keys.end() ? nullptr : &*found;
}

bool is_section(std::string_view name) {
  const std::string prefix = std::string(name) + ".";
  const auto& keys = schema();
  return std::any_of(keys.begin(), keys.end(),
                     [&](const Key& key) { return key.name.starts_with(prefix); });
}

}  // namespace detforge::config
