#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "detforge/eval/coco_eval.h"

namespace detforge {

/// Which category of a data set each class of a model is, by name: the data set to evaluate on may
/// have fewer, more or differently numbered categories than the one that the model was trained on.
struct CategoryMap {
  std::vector<std::optional<std::int64_t>>
      id_of_label;  ///< [K] category id of class 0..K-1; none = not in the data
  std::vector<std::string> only_in_model;  ///< class names that the data set does not have
  std::vector<std::string> only_in_data;   ///< category names that the model does not know
};

/// Matches exact names. Throws Error if no name is in both, or if a name that is used occurs twice
/// on one side.
CategoryMap match_categories(std::span<const std::string> class_names,
                             std::span<const EvalCategory> categories);

}  // namespace detforge
