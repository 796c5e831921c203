#pragma once

#include <cstdint>
#include <vector>

#include <simdjson.h>

#include "detforge/structures/image.h"

namespace detforge {

/// Reads COCO's RLE object {"size": [height, width], "counts": TEXT or [run, run, ...]}, keys in
/// any order, appends its runs to `runs` and returns the size. Throws Error (without a place and,
/// for values of the wrong kind, without advice) if it is malformed or fails check_rle(); `runs`
/// may then have grown.
ImageSize append_rle_json(simdjson::ondemand::object object, std::vector<std::uint32_t>& runs);

}  // namespace detforge
