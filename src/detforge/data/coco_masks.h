#pragma once

#include "detforge/data/coco_store.h"

namespace detforge {

/// Area of an annotation's mask: pixels of an RLE, shoelace area of polygons (overlaps count
/// twice).
double mask_area(const CocoTables& tables, const CocoAnnotation& annotation);

/// The box around an annotation's mask. It must have one.
Box mask_box(const CocoTables& tables, const CocoAnnotation& annotation);

/// Leaves out the parts of the annotation read last (those from first_part to the end of the table)
/// that are no polygons, and sets part_count. Reports them, and a mask of which nothing is left.
/// Returns false if the policy drops the annotation for it.
bool drop_invalid_parts(CocoTables& tables, CocoAnnotation& annotation, CheckReport& report);

}  // namespace detforge
