#pragma once

#include <string>

#include "detforge/config/config.h"

namespace detforge {

/// Where datasets are looked for.
struct DatasetRoots {
  std::string data;  ///< --data: dataset names and relative paths are below it; empty = not given
  std::string detectron2;  ///< $DETECTRON2_DATASETS, which holds coco/; empty = "datasets"
};

/// Fills TRAIN_JSON, TRAIN_IMAGES, TEST_JSON and TEST_IMAGES with absolute paths: from the paths in
/// the config (relative ones below roots.data or, without it, the working directory), or, where
/// there are none, from Detectron2's dataset names (coco_2017_train:
/// annotations/instances_train2017.json and train2017/ below the COCO folder). Throws Error (usage)
/// for an unknown name. Does not look at the files.
void resolve_datasets(Config& config, const DatasetRoots& roots);

}  // namespace detforge
