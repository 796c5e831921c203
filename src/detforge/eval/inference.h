#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "detforge/eval/coco_eval.h"
#include "detforge/models/detector.h"
#include "detforge/structures/batch.h"
#include "detforge/structures/rle_list.h"

namespace detforge {

/// The next batch, none at the end. An EvalLoader fits: [&] { return loader.next(); }.
using BatchProducer = std::function<std::optional<Batch>()>;

struct InferenceOptions {
  std::int64_t total_images = 0;  ///< for the ETA in the log; 0 = unknown
  std::int64_t max_images = 0;    ///< stop after so many images; 0 = all
  double log_every_s = 5;         ///< at most one progress line in so many seconds
  std::function<void(std::int64_t images_done)> progress = {};  ///< called after each batch
};

/// What the detector found. Images that the producer leaves out (files that cannot be decoded) are
/// not in image_ids; the evaluation still judges on all images of the data set, so that their
/// objects count as missed. Only after max_images are image_ids the images to judge on.
struct InferenceResult {
  std::vector<EvalDetection>
      detections;  ///< original pixels and category ids; images in the order they came
  RleList masks;   ///< one per detection, of the original image's size; empty if the model has none
  std::vector<std::int64_t> image_ids;  ///< of the images that were seen
  std::int64_t dropped = 0;             ///< detections of classes without category id
  double total_s = 0, model_s = 0;      ///< all, and inside predict()
  double paste_s = 0;                   ///< of masks into images
};

/// Runs the detector over all batches in eval mode and without gradients; the mode is put back
/// afterwards, also after an exception. Boxes are scaled to original pixels (postprocess) and
/// written as xywh; masks are pasted into the original image (paste_masks, threshold 0.5) and kept
/// as run lengths.
///   id_of_label  [K] category id of class 0..K-1, none = leave its detections out
///   (CategoryMap::id_of_label)
/// Throws Error for a label outside id_of_label, for a model that gives masks for some images only,
/// and whatever detector and producer throw.
InferenceResult run_inference(Detector& detector,
                              const BatchProducer& next_batch,
                              std::span<const std::optional<std::int64_t>> id_of_label,
                              const InferenceOptions& options = {});

}  // namespace detforge
