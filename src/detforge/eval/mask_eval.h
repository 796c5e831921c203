#pragma once

#include <span>

#include "detforge/eval/coco_eval.h"
#include "detforge/structures/rle_list.h"

namespace detforge {

/// COCO's metrics for masks, equal to pycocotools' COCOeval with iouType "segm": evaluate_coco()
/// with the IoU of masks; boxes are not looked at. The area that puts an unmatched detection into a
/// size range is its mask's pixel count, as in Detectron2, which removes the boxes from the results
/// first; options.area_of_boxes is pycocotools' way with results that have both.
///   gt_masks         one per inputs.ground_truth, see ground_truth_masks()
///   detection_masks  one per detection, of the size of its image
/// Throws Error as evaluate_coco() does, for lists of another length, and for a mask whose size is
/// not that of the objects that it is compared with.
CocoEvalResult evaluate_coco_masks(const EvalInputs& inputs,
                                   const RleList& gt_masks,
                                   std::span<const EvalDetection> detections,
                                   const RleList& detection_masks,
                                   const CocoEvalOptions& options = {});

}  // namespace detforge
