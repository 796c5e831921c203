#pragma once

#include <vector>

#include "detforge/core/tensor.h"
#include "detforge/structures/image.h"

namespace detforge {

struct RoiPoolerOptions {
  std::int64_t resolution = 7;  ///< output height and width
  int sampling_ratio = 0;       ///< see RoiAlignOptions
  bool aligned = true;          ///< true: ROIAlignV2, false: ROIAlign
  double canonical_box_size =
      224.0;  ///< side of the box that belongs to canonical_level, in pixels
  std::int64_t canonical_level = 4;
  bool contiguous = false;  ///< see RoiAlignOptions
};

/// Level index of each box [B,4]: clamp(floor(canonical_level + log2(sqrt(area) /
/// canonical_box_size + 1e-8)), min_level, max_level) - min_level, [B] i64. Ref: Lin et al.,
/// arXiv:1612.03144, Eq. 1.
Tensor assign_levels(const Tensor& boxes,
                     std::int64_t min_level,
                     std::int64_t max_level,
                     const RoiPoolerOptions& options);

/// ROIAlign on the pyramid level that fits each box's size.
class RoiPooler {
 public:
  /// `strides` of the levels, finest first, each twice the one before. Throws Error otherwise.
  RoiPooler(const RoiPoolerOptions& options, std::vector<std::int64_t> strides);

  /// features: one map [N,C,H,W] per level; boxes: [B_i,4] f32 xyxy for each of the N images, image
  /// pixels. return [sum of B_i, C, resolution, resolution], image by image, in the layout of the
  /// features unless options say contiguous; 0 boxes give an empty tensor that is still connected
  /// to every level.
  Tensor forward(const std::vector<Tensor>& features, const std::vector<Tensor>& boxes) const;

 private:
  RoiPoolerOptions options_;
  std::vector<std::int64_t> strides_;
  std::int64_t min_level_, max_level_;
};

}  // namespace detforge
