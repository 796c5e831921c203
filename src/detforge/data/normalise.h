#pragma once

#include <array>
#include <cstdint>

#include "detforge/structures/image.h"

namespace detforge {

/// Writes an image as network input: planes (CHW) of f32, zero-padded at the right and the bottom.
///   chw  3 * padded_h * padded_w floats, channel order B, G, R; every one of them is written
///   value = (x - mean[c]) / std[c], rounded after each operation as torch does it, so the result
///   equals Detectron2's `(x - pixel_mean) / pixel_std` bit for bit
/// Throws Error if the image does not fit into the padded size or a std is 0.
void normalise_into(const Image& image,
                    float* chw,
                    std::int64_t padded_h,
                    std::int64_t padded_w,
                    const std::array<float, 3>& mean,
                    const std::array<float, 3>& std);

}  // namespace detforge
