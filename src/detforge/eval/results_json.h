#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "detforge/data/coco_store.h"
#include "detforge/eval/coco_eval.h"
#include "detforge/structures/rle_list.h"

namespace detforge {

/// COCO's results format as text: [{"image_id":7,"category_id":3,"bbox":[x,y,w,h],"score":0.9},
/// ...] in the given order; with masks each entry also has "segmentation":{"size":[h,w],
/// "counts":TEXT}. Ids are exact integers; numbers are the shortest text that reads back as the
/// same double, so that an evaluation of the file gives the number that an evaluation in memory
/// gives. The text goes to `write` in pieces, so that it is never in memory as a whole.
///   masks  one per detection, or none at all
/// Throws Error for a number that is not finite (JSON cannot say it).
void write_results_text(std::span<const EvalDetection> detections,
                        const RleList& masks,
                        const std::function<void(std::string_view piece)>& write);

/// Writes that text through core/files (completely or not at all).
void write_results_json(const std::filesystem::path& path,
                        std::span<const EvalDetection> detections,
                        const RleList& masks = {});

struct ResultsReadOptions {
  bool masks = false;                 ///< read "segmentation", which each entry must then have
  const CocoStore* images = nullptr;  ///< needed only for masks given as polygons: image sizes
};

/// The content of a results file, in its order.
struct CocoResults {
  std::vector<EvalDetection> detections;
  RleList masks;           ///< one per detection; empty if masks were not asked for
  bool has_boxes = false;  ///< the first entry has a "bbox": see CocoEvalOptions::area_of_boxes
};

/// Reads a results file; an empty list is fine, further keys are skipped. An entry without "bbox",
/// or with an empty one, gets the box of its mask, as pycocotools' loadRes does. Masks may be
/// compressed RLE, lists of run lengths, or polygons (drawn at the size of their image). Throws
/// Error naming file and entry for: no JSON, a missing key, an id that is not an integer of 64
/// bits, a bbox that is not four finite numbers, a score that is not finite, a malformed mask,
/// polygons of an unknown image.
CocoResults read_results_json(const std::filesystem::path& path,
                              const ResultsReadOptions& options = {});

/// Throws Error listing the first few image and category ids of `detections` that `inputs` does not
/// have: the results are those of another data set, or hold class numbers 0..K-1 instead of
/// category ids.
void check_results_ids(std::span<const EvalDetection> detections, const EvalInputs& inputs);

}  // namespace detforge
