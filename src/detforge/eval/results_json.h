#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "detforge/eval/coco_eval.h"

namespace detforge {

/// COCO's results format as text: [{"image_id":7,"category_id":3,"bbox":[x,y,w,h],"score":0.9},
/// ...] in the given order. Ids are exact integers; numbers are the shortest text that reads back
/// as the same double, so that an evaluation of the file gives the number that an evaluation in
/// memory gives. Throws Error for a number that is not finite (JSON cannot say it).
std::string results_json_text(std::span<const EvalDetection> detections);

/// Writes that text through core/files (completely or not at all).
void write_results_json(const std::filesystem::path& path,
                        std::span<const EvalDetection> detections);

/// Reads the boxes of a results file in file order; an empty list is fine, further keys are
/// skipped. Throws Error naming file and entry for: no JSON, a missing key, an id that is not an
/// integer of 64 bits, a bbox that is not four finite numbers, a score that is not finite.
std::vector<EvalDetection> read_results_json(const std::filesystem::path& path);

/// Throws Error listing the first few image and category ids of `detections` that `inputs` does not
/// have: the results are those of another data set, or hold class numbers 0..K-1 instead of
/// category ids.
void check_results_ids(std::span<const EvalDetection> detections, const EvalInputs& inputs);

}  // namespace detforge
