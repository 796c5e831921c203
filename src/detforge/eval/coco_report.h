#pragma once

#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "detforge/eval/coco_eval.h"

namespace detforge {

/// pycocotools' lines, one per summary metric, n/a where it prints -1:
///  Average Precision  (AP) @[ IoU=0.50:0.95 | area=   all | maxDets=100 ] = 0.379
std::string summary_table(const CocoEvalResult& result);

/// One row per category: AP, AP50, AP75, AP by area, AR, objects and detections; aligned for a
/// terminal.
std::string category_table(const CocoEvalResult& result);

/// The same as CSV with a header line and full precision; n/a is an empty field, names are quoted
/// as RFC 4180 wants.
std::string category_csv(const CocoEvalResult& result);

/// {"AP": 0.379, ..., "per_category": [{"id", "name", "AP", ...}], "images", "objects",
/// "detections", "notes"}; null where there is nothing to judge.
nlohmann::ordered_json metrics_json(const CocoEvalResult& result);

/// Boxes and masks of the same detections: {"bbox": {...}, "segm": {...}}.
nlohmann::ordered_json metrics_json(const CocoEvalResult& boxes, const CocoEvalResult& masks);

/// A sentence if boxes find (nearly) everything that masks do not, or the other way round: then the
/// annotations, or one of the model's heads, are wrong rather than untrained. None otherwise.
std::optional<std::string> disagreement_note(const CocoEvalResult& boxes,
                                             const CocoEvalResult& masks);

}  // namespace detforge
