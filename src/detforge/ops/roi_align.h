#pragma once

#include <vector>

#include "detforge/core/tensor.h"
#include "detforge/structures/image.h"

namespace detforge {

struct RoiAlignOptions {
  ImageSize output_size{7, 7};
  double spatial_scale = 1.0;  ///< feature pixels per image pixel, 1 / stride
  int sampling_ratio = 0;  ///< samples per bin and axis; 0: ceil(roi size / output size), per ROI
  bool aligned = true;     ///< true: pixel centres at .5 (ROIAlignV2); false: Detectron's original
  /// The result is contiguous also for channels-last features: for layers that read a ROI as a row.
  bool contiguous = false;
};

/// Bilinear average of a feature map inside each box (ROIAlign).
///   features [N,C,H,W] f32, contiguous or channels-last (result and gradient have the same layout)
///   rois     [R,5] f32: batch index, x1, y1, x2, y2 in image pixels
///   return   [R,C,output height,output width]; R = 0 gives an empty tensor that still takes part
///   in backward
/// Gradient with respect to features only, deterministic for any thread count. Channels-last maps
/// are several times faster.
/// Throws Error if shapes or dtypes do not fit or a batch index is out of range.
/// Ref: He et al., Mask R-CNN, arXiv:1703.06870, sec. 3; numerics as in Detectron2's ROIAlign.
Tensor roi_align(const Tensor& features, const Tensor& rois, const RoiAlignOptions& options);

/// One level of a pyramid.
struct RoiAlignLevel {
  Tensor features;             ///< [N,C,H,W]; N and C are those of all levels
  double spatial_scale = 1.0;  ///< of this level: options.spatial_scale is not read
};

/// roi_align() of ROI r on pyramid[level_of_roi[r]], written straight to its place in the result.
///   level_of_roi [R] i64
/// Every level gets a gradient, zero where no ROI is pooled from it. The layout is channels-last if
/// that of any level is. Throws Error also if a level does not exist.
Tensor roi_align_pyramid(const std::vector<RoiAlignLevel>& pyramid,
                         const Tensor& rois,
                         const Tensor& level_of_roi,
                         const RoiAlignOptions& options);

}  // namespace detforge
