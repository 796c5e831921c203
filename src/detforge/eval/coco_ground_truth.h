#pragma once

#include <cstdint>
#include <span>

#include "detforge/data/coco_store.h"
#include "detforge/eval/coco_eval.h"
#include "detforge/structures/rle_list.h"

namespace detforge {

/// Everything that detections of this data set are judged against: all images and categories, and
/// all annotations with four finite box numbers (also those that are not usable for training, and
/// crowds), with the file's own boxes and areas. An annotation of an unknown category is kept and
/// left out, and counted, by evaluate_coco().
EvalInputs eval_inputs(const CocoStore& store);

/// The same for the images in `image_ids` only, for an evaluation that stopped early.
EvalInputs eval_inputs(const CocoStore& store, std::span<const std::int64_t> image_ids);

/// The masks of inputs.ground_truth, one for each, in its order: polygons are drawn at the size of
/// the image exactly as pycocotools draws them. An annotation without a mask gives an empty one,
/// which no detection can match (evaluate_coco_masks() says so in its notes).
///   inputs   made by eval_inputs() of this store; entries may have been removed since
///   threads  0 = one per processor; the result does not depend on it
/// Throws Error naming the annotation for objects of another store and images of unknown size.
RleList ground_truth_masks(const CocoStore& store, const EvalInputs& inputs, int threads = 0);

}  // namespace detforge
