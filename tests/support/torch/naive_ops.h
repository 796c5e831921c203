#pragma once

#include <cstdint>
#include <vector>

#include "detforge/core/tensor.h"
#include "detforge/ops/conv2d.h"
#include "detforge/ops/roi_align.h"

/// Obvious loops, written from the definitions and without a look at the fast versions, to test
/// those against. Unless said otherwise they compute in f64 and return f64.
namespace detforge::test {

/// Quadratic greedy NMS within groups (undefined: one group), in f32 because its comparisons must
/// be the same.
std::vector<std::int64_t> naive_nms(const Tensor& boxes,
                                    const Tensor& scores,
                                    const Tensor& groups,
                                    double iou_threshold);

/// [N,M]
Tensor naive_pairwise_iou(const Tensor& a, const Tensor& b);

/// Four-point interpolation at every sample of every bin, one at a time.
Tensor naive_roi_align(const Tensor& features, const Tensor& rois, const RoiAlignOptions& options);

/// Gradient of sum(grad_pooled * naive_roi_align(features)) with respect to features of the given
/// shape.
Tensor naive_roi_align_backward(const Tensor& grad_pooled,
                                const std::vector<std::int64_t>& features_shape,
                                const Tensor& rois,
                                const RoiAlignOptions& options);

/// activation(conv(input, weight) + bias + residual), seven nested loops. Undefined bias and
/// residual are 0.
Tensor naive_conv2d(const Tensor& input,
                    const Tensor& weight,
                    const Tensor& bias,
                    const Conv2dOptions& options,
                    const Tensor& residual = {});

}  // namespace detforge::test
