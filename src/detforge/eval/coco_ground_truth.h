#pragma once

#include <cstdint>
#include <span>

#include "detforge/data/coco_store.h"
#include "detforge/eval/coco_eval.h"

namespace detforge {

/// Everything that detections of this data set are judged against: all images and categories, and
/// all annotations with four finite box numbers (also those that are not usable for training, and
/// crowds), with the file's own boxes and areas. An annotation of an unknown category is kept and
/// left out, and counted, by evaluate_coco().
EvalInputs eval_inputs(const CocoStore& store);

/// The same for the images in `image_ids` only, for an evaluation that stopped early.
EvalInputs eval_inputs(const CocoStore& store, std::span<const std::int64_t> image_ids);

}  // namespace detforge
