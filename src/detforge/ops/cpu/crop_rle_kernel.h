#pragma once

#include <cstdint>

#include "detforge/structures/segmentation.h"

namespace detforge::cpu {

/// target [M,M] = 1 where ROIAlign (aligned, adaptive sampling) of the bitmap in box (x1, y1, x2,
/// y2; finite) is at least 0.5, else 0, with torchvision's rounding also where the average is
/// exactly 0.5. The mask must have passed check_rle().
void crop_rle(RleView mask, const float* box, std::int64_t resolution, float* target);

}  // namespace detforge::cpu
