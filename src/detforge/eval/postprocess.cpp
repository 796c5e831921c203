#include "detforge/eval/postprocess.h"

#include <fmt/format.h>
#include <torch/types.h>

#include "detforge/core/error.h"

namespace detforge {

Detections postprocess(const Detections& detections,
                       const Window& content,
                       ImageSize original_size) {
  DETFORGE_CHECK(content.size.height > 0 && content.size.width > 0,
                 fmt::format("network input size {}x{}", content.size.height, content.size.width),
                 "give the size of the resized image (height x width)");
  const auto width = static_cast<double>(original_size.width),
             height = static_cast<double>(original_size.height);
  Tensor boxes = detections.boxes.clone();
  const Tensor xs = boxes.slice(1, 0, 4, 2), ys = boxes.slice(1, 1, 4, 2);  // views
  xs.sub_(content.left).mul_(width / static_cast<double>(content.size.width)).clamp_(0, width);
  ys.sub_(content.top).mul_(height / static_cast<double>(content.size.height)).clamp_(0, height);
  const Tensor sizes = boxes.slice(1, 2, 4) - boxes.slice(1, 0, 2);
  const Tensor kept = sizes.gt(0).all(1).nonzero().squeeze(1);
  return {.boxes = boxes.index_select(0, kept),
          .scores = detections.scores.index_select(0, kept),
          .labels = detections.labels.index_select(0, kept),
          .masks = detections.masks.defined() ? detections.masks.index_select(0, kept) : Tensor()};
}

}  // namespace detforge
