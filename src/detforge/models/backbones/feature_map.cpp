#include "detforge/models/backbones/feature_map.h"

#include "detforge/core/error.h"

namespace detforge {

std::vector<std::size_t> find_features(const std::vector<FeatureSpec>& specs,
                                       const std::vector<std::string>& names) {
  std::vector<std::size_t> positions;
  for (const std::string& name : names) {
    std::string known;
    std::size_t position = specs.size();
    for (std::size_t i = 0; i < specs.size(); ++i) {
      known += (i > 0 ? ", " : "") + specs[i].name;
      position = specs[i].name == name ? i : position;
    }
    DETFORGE_CHECK(position < specs.size(), "there is no feature map " + name,
                   "choose from " + known);
    positions.push_back(position);
  }
  return positions;
}

}  // namespace detforge
