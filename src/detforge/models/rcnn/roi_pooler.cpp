#include "detforge/models/rcnn/roi_pooler.h"

#include <bit>

#include <torch/types.h>

#include "detforge/core/error.h"
#include "detforge/models/backbones/feature_map.h"
#include "detforge/ops/iou.h"
#include "detforge/ops/roi_align.h"

namespace detforge {
namespace {

// [sum of B_i,5]: batch index, box
Tensor with_batch_index(const std::vector<Tensor>& boxes) {
  std::vector<Tensor> rois;
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    const Tensor index =
        torch::full({boxes[i].size(0), 1}, static_cast<double>(i), boxes[i].options());
    rois.push_back(torch::cat({index, boxes[i]}, 1));
  }
  return torch::cat(rois);
}

}  // namespace

Tensor assign_levels(const Tensor& boxes,
                     std::int64_t min_level,
                     std::int64_t max_level,
                     const RoiPoolerOptions& options) {
  const Tensor side = box_area(boxes).sqrt();
  const Tensor level = (static_cast<double>(options.canonical_level) +
                        (side / options.canonical_box_size + 1e-8).log2())
                           .floor();
  return level.clamp(static_cast<double>(min_level), static_cast<double>(max_level))
             .to(torch::kLong) -
         min_level;
}

RoiPooler::RoiPooler(const RoiPoolerOptions& options, std::vector<std::int64_t> strides)
    : options_(options), strides_(std::move(strides)) {
  DETFORGE_CHECK(!strides_.empty(), "the ROI pooler has no feature maps",
                 "set MODEL.ROI_HEADS.IN_FEATURES");
  for (std::size_t i = 0; i < strides_.size(); ++i) {
    DETFORGE_CHECK(std::has_single_bit(static_cast<std::uint64_t>(strides_[i])) &&
                       (i == 0 || strides_[i] == 2 * strides_[i - 1]),
                   "the ROI pooler's strides do not double from level to level",
                   "list feature maps finest first without gaps, e.g. [p2, p3, p4, p5]");
  }
  min_level_ = level_of(strides_.front());
  max_level_ = level_of(strides_.back());
}

Tensor RoiPooler::forward(const std::vector<Tensor>& features,
                          const std::vector<Tensor>& boxes) const {
  DETFORGE_CHECK(features.size() == strides_.size() && !boxes.empty(),
                 "feature maps or boxes to pool are missing",
                 "pass one map per stride and one list of boxes per image");
  const Tensor rois = with_batch_index(boxes);
  const Tensor levels = assign_levels(rois.slice(1, 1), min_level_, max_level_, options_);
  std::vector<RoiAlignLevel> pyramid;
  for (std::size_t level = 0; level < features.size(); ++level) {
    pyramid.push_back({features[level], 1.0 / static_cast<double>(strides_[level])});
  }
  return roi_align_pyramid(pyramid, rois, levels,
                           {.output_size = {options_.resolution, options_.resolution},
                            .sampling_ratio = options_.sampling_ratio,
                            .aligned = options_.aligned,
                            .contiguous = options_.contiguous});
}

}  // namespace detforge
