#pragma once

#include <string>

#include "detforge/data/checks.h"
#include "detforge/data/coco_store.h"

namespace detforge {

/// Parses a COCO instances file into tables in file order, images and categories included, with
/// simdjson's on-demand parser: one pass, unknown keys are skipped, keys may come in any order. Ids
/// are exact int64. Numbers may be Python's NaN and Infinity. Masks are validated here, as their
/// pools are filled: parts that are no polygons and RLEs that cannot be decoded go to `report` and
/// are left out; a missing area is taken from the mask or the box. Everything that needs a second
/// look at other records is check_coco()'s.
CocoTables read_coco_json(const std::string& path, bool keep_segmentation, CheckReport& report);

}  // namespace detforge
