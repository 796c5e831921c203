#include "detforge/models/box_coder.h"

#include <cmath>

#include <torch/types.h>

#include "detforge/core/error.h"

namespace detforge {
namespace {

const double kScaleClamp = std::log(1000.0 / 16.0);

struct CentreForm {
  Tensor x, y, width, height;
};

CentreForm to_centre_form(const Tensor& boxes) {
  const Tensor width = boxes.select(1, 2) - boxes.select(1, 0);
  const Tensor height = boxes.select(1, 3) - boxes.select(1, 1);
  return {boxes.select(1, 0) + 0.5 * width, boxes.select(1, 1) + 0.5 * height, width, height};
}

}  // namespace

BoxCoder::BoxCoder(std::array<double, 4> weights) : weights_(weights) {
  for (const double weight : weights_) {
    DETFORGE_CHECK(weight > 0.0,
                   "box regression weight " + std::to_string(weight) + " is not positive",
                   "use (1, 1, 1, 1) or (10, 10, 5, 5)");
  }
}

Tensor BoxCoder::encode(const Tensor& reference, const Tensor& target) const {
  DETFORGE_CHECK(nonempty_boxes(reference).all().item<bool>(),
                 "a reference box to encode against has no area", "remove empty proposals first");
  const CentreForm from = to_centre_form(reference);
  const CentreForm to = to_centre_form(target);
  return torch::stack(
      {weights_[0] * (to.x - from.x) / from.width, weights_[1] * (to.y - from.y) / from.height,
       weights_[2] * (to.width / from.width).log(), weights_[3] * (to.height / from.height).log()},
      1);
}

Tensor BoxCoder::decode(const Tensor& deltas, const Tensor& reference) const {
  DETFORGE_CHECK(
      deltas.dim() == 2 && deltas.size(1) % 4 == 0 && deltas.size(0) == reference.size(0),
      "deltas and boxes to decode do not fit", "pass deltas [N,k*4] and boxes [N,4]");
  const CentreForm from = to_centre_form(reference);
  const Tensor each = deltas.reshape({deltas.size(0), deltas.size(1) / 4, 4});
  const auto delta = [&](int i) {
    return each.select(2, i) / weights_[static_cast<std::size_t>(i)];
  };
  const auto column = [](const Tensor& t) { return t.unsqueeze(1); };
  const Tensor x = delta(0) * column(from.width) + column(from.x);
  const Tensor y = delta(1) * column(from.height) + column(from.y);
  const Tensor half_width = 0.5 * (delta(2).clamp_max(kScaleClamp).exp() * column(from.width));
  const Tensor half_height = 0.5 * (delta(3).clamp_max(kScaleClamp).exp() * column(from.height));
  return torch::stack({x - half_width, y - half_height, x + half_width, y + half_height}, 2)
      .reshape(deltas.sizes());
}

Tensor clip_boxes(const Tensor& boxes, ImageSize size) {
  const auto width = static_cast<double>(size.width);
  const auto height = static_cast<double>(size.height);
  return torch::stack(
      {boxes.select(-1, 0).clamp(0.0, width), boxes.select(-1, 1).clamp(0.0, height),
       boxes.select(-1, 2).clamp(0.0, width), boxes.select(-1, 3).clamp(0.0, height)},
      -1);
}

Tensor nonempty_boxes(const Tensor& boxes, double threshold) {
  return (boxes.select(1, 2) - boxes.select(1, 0) > threshold)
      .logical_and(boxes.select(1, 3) - boxes.select(1, 1) > threshold);
}

}  // namespace detforge
