#include "detforge/models/backbones/feature_map.h"

#include <bit>

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

std::vector<std::int64_t> strides_of(const std::vector<FeatureSpec>& specs,
                                     const std::vector<std::size_t>& positions) {
  std::vector<std::int64_t> strides;
  for (const std::size_t position : positions) {
    strides.push_back(specs[position].stride);
  }
  return strides;
}

std::int64_t level_of(std::int64_t stride) {
  return std::bit_width(static_cast<std::uint64_t>(stride)) - 1;
}

}  // namespace detforge
