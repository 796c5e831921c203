#pragma once

#include <filesystem>

#include "detforge/config/config.h"
#include "detforge/data/dataset.h"
#include "detforge/data/transforms.h"

namespace detforge {

/// Writes FOLDER/train_batch.jpg: the first training images as the network sees them, with their
/// objects. Look at it before waiting for a long run.
void write_training_pictures(const CocoDataset& dataset,
                             const TransformPipeline& transforms,
                             const Config& config,
                             const std::filesystem::path& folder);

}  // namespace detforge
