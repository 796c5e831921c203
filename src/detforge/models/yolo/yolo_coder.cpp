#include "detforge/models/yolo/yolo_coder.h"

#include <torch/types.h>

namespace detforge {
namespace {

constexpr double kEps = 1e-6;

Tensor low(const Tensor& boxes) {
  return boxes.slice(1, 0, 2);
}
Tensor high(const Tensor& boxes) {
  return boxes.slice(1, 2, 4);
}
Tensor centre_of(const Tensor& boxes) {
  return (low(boxes) + high(boxes)) * 0.5;
}
Tensor size_of(const Tensor& boxes) {
  return high(boxes) - low(boxes);
}

}  // namespace

Tensor encode_yolo_boxes(const Tensor& anchors, const Tensor& gt_boxes, const YoloScale& scale) {
  const auto stride = static_cast<double>(scale.stride);
  const Tensor position = (centre_of(gt_boxes) - centre_of(anchors)) / stride + 0.5;
  const Tensor xy = (position + (scale.scale_xy - 1.0) / 2.0) / scale.scale_xy;
  const Tensor wh = (size_of(gt_boxes) / size_of(anchors)).clamp_min(kEps).log();
  return torch::cat({xy.clamp(kEps, 1.0 - kEps), wh}, 1);
}

Tensor decode_yolo_boxes(const Tensor& anchors, const Tensor& values, const YoloScale& scale) {
  const auto stride = static_cast<double>(scale.stride);
  const Tensor position =
      values.slice(1, 0, 2) * scale.scale_xy - (scale.scale_xy - 1.0) / 2.0 - 0.5;
  const Tensor centre = centre_of(anchors) + position * stride;
  const Tensor half = size_of(anchors) * 0.5 * values.slice(1, 2, 4).exp();
  return torch::cat({centre - half, centre + half}, 1);
}

Tensor decode_yolo_rows(const Tensor& anchors, const Tensor& rows, const YoloScale& scale) {
  const Tensor values = torch::cat({rows.slice(1, 0, 2).sigmoid(), rows.slice(1, 2, 4)}, 1);
  return decode_yolo_boxes(anchors, values, scale);
}

}  // namespace detforge
