#pragma once

#include <cstdint>
#include <filesystem>

#include "detforge/config/config.h"
#include "detforge/data/dataset.h"
#include "detforge/data/transform_pipeline.h"
#include "detforge/eval/inference.h"

namespace detforge {

/// Writes FOLDER/train_batch.jpg: the first training images as the network sees them, with their
/// objects. Look at it before waiting for a long run.
void write_training_pictures(const CocoDataset& dataset,
                             const TransformPipeline& transforms,
                             const Config& config,
                             const std::filesystem::path& folder);

struct EvaluationPictures {
  std::filesystem::path folder;
  std::int64_t count = 8;        ///< images, spread over the data set
  double score_threshold = 0.5;  ///< detections below are not drawn
};

/// Writes FOLDER/IMAGE_ID.jpg for some images that `found` covers: detections left, ground truth
/// right. Names and colours are those of the data set's classes.
void write_evaluation_pictures(const CocoDataset& dataset,
                               const InferenceResult& found,
                               const EvaluationPictures& options);

}  // namespace detforge
