#include "detforge/models/rcnn/mask_branch.h"

#include <algorithm>

#include <fmt/format.h>
#include <torch/types.h>

#include "detforge/core/error.h"
#include "detforge/models/losses.h"
#include "detforge/ops/mask_targets.h"

namespace detforge {
namespace {

constexpr std::int64_t kPiece = 64;  // boxes predicted at once, of 2 MB of activations each

/// Which of an image's ROIs the mask loss sees: foreground whose object has a segmentation.
Tensor trained_rois(const SampledRois& rois, const Targets& targets, std::int64_t num_classes) {
  const Tensor foreground =
      (rois.labels >= 0).logical_and(rois.labels < num_classes).nonzero().squeeze(1);
  if (foreground.numel() == 0) {
    return foreground;
  }
  DETFORGE_CHECK(static_cast<std::int64_t>(targets.masks.size()) == targets.boxes.size(0),
                 fmt::format("an image with {} objects comes with {} masks", targets.boxes.size(0),
                             targets.masks.size()),
                 "the mask head needs a data set with segmentations, loaded with masks "
                 "(MODEL.MASK_ON True)");
  const Tensor object = rois.gt_index.index_select(0, foreground).contiguous();
  std::vector<std::int64_t> with_mask;
  for (std::int64_t i = 0; i < object.numel(); ++i) {
    const auto index = static_cast<std::size_t>(object.data_ptr<std::int64_t>()[i]);
    if (!targets.masks.at(index).empty()) {
      with_mask.push_back(i);
    }
  }
  return foreground.index_select(0, torch::tensor(with_mask, torch::kLong));
}

}  // namespace

MaskBranch::MaskBranch(const MaskHeadOptions& options,
                       std::vector<std::int64_t> strides,
                       std::int64_t channels,
                       std::int64_t num_classes)
    : num_classes_(num_classes),
      resolution_(2 * options.pooler.resolution),
      pooler_(options.pooler, std::move(strides)),
      head_(options, channels, num_classes) {}

LossTerm MaskBranch::loss(const std::vector<Tensor>& maps,
                          const std::vector<SampledRois>& rois,
                          const std::vector<Targets>& targets,
                          const LossCounts* whole) const {
  std::vector<Tensor> boxes;
  std::vector<Tensor> labels;
  std::vector<Tensor> grids;
  for (std::size_t i = 0; i < rois.size(); ++i) {
    const Tensor chosen = trained_rois(rois[i], targets[i], num_classes_);
    boxes.push_back(rois[i].boxes.index_select(0, chosen));
    labels.push_back(rois[i].labels.index_select(0, chosen));
    grids.push_back(mask_targets(targets[i].masks, boxes.back(),
                                 rois[i].gt_index.index_select(0, chosen), resolution_));
  }
  const Tensor logits = head_->forward(pooler_.forward(maps, boxes), torch::cat(labels));
  const Tensor sum = sigmoid_bce_loss_sum(logits.flatten(), torch::cat(grids).flatten());
  const std::int64_t masks_in_all = whole ? whole->masks : logits.size(0);
  const std::int64_t cells = masks_in_all * resolution_ * resolution_;
  return {"loss_mask", sum / static_cast<double>(std::max<std::int64_t>(cells, 1)),
          static_cast<double>(logits.size(0))};
}

std::int64_t MaskBranch::count(const std::vector<SampledRois>& rois,
                               const std::vector<Targets>& targets) const {
  std::int64_t masks = 0;
  for (std::size_t i = 0; i < rois.size(); ++i) {
    masks += trained_rois(rois[i], targets[i], num_classes_).numel();
  }
  return masks;
}

std::vector<Tensor> MaskBranch::predict(const std::vector<Tensor>& maps,
                                        const std::vector<Tensor>& boxes,
                                        const std::vector<Tensor>& labels) const {
  const torch::NoGradGuard no_grad;
  std::vector<Tensor> masks;
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    std::vector<Tensor> image_maps;
    for (const Tensor& map : maps) {
      const auto first = static_cast<std::int64_t>(i);
      image_maps.push_back(map.slice(0, first, first + 1));
    }
    std::vector<Tensor> pieces{torch::zeros({0, resolution_, resolution_}, boxes[i].options())};
    for (std::int64_t begin = 0; begin < boxes[i].size(0); begin += kPiece) {
      const Tensor pooled = pooler_.forward(image_maps, {boxes[i].slice(0, begin, begin + kPiece)});
      const Tensor logits = head_->forward(pooled, labels[i].slice(0, begin, begin + kPiece));
      pieces.push_back(logits.sigmoid());
    }
    masks.push_back(torch::cat(pieces));
  }
  return masks;
}

}  // namespace detforge
