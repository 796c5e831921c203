#pragma once

#include "detforge/data/coco_store.h"

namespace detforge {

/// Checks what read_coco_json() cannot see record by record, and brings the tables into CocoStore's
/// order: images and categories sorted by id and distinct, each annotation with its category,
/// grouped by image. Annotations of no known image or category are removed; those unfit for
/// training stay with usable = false.
void check_coco(CocoTables& tables, const CocoLoadOptions& options, CheckReport& report);

}  // namespace detforge
