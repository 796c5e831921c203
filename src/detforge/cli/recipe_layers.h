#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "detforge/cli/arguments.h"
#include "detforge/ops/work_meter.h"

namespace detforge {

/// The convolutions and linear layers of one training step of a recipe.
struct RecipeLayers {
  std::string name;                    ///< "COCO-YOLOv3/yolov3_d53_416_273e"
  std::vector<std::string> same = {};  ///< names of later recipes with the same layers
  HeightWidth size;                    ///< of its images
  std::int64_t batch = 0;
  std::vector<LayerCount> layers;  ///< those without work (no image has a mask) are left out
};

/// Builds each recipe's model and runs its losses once on made-up images, to see its layers.
/// Recipes: the file `arguments.config`, or the .yaml files below that folder (by default
/// `configs`) but for those called Base-*, which are parts of others. Images of the recipe's usual
/// size and as many as usual, or as the command line says; Mask R-CNN gets as many objects as masks
/// are trained. Throws Error (usage) if there is no recipe.
std::vector<RecipeLayers> collect_layers(const BenchArguments& arguments);

}  // namespace detforge
