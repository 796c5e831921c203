#include "detforge/models/rcnn/rpn.h"

#include <torch/types.h>

#include "detforge/core/error.h"

namespace detforge {
namespace {

std::int64_t common_channels(const std::vector<FeatureSpec>& features,
                             const std::vector<std::size_t>& inputs) {
  DETFORGE_CHECK(!inputs.empty(), "the RPN has no feature maps", "set MODEL.RPN.IN_FEATURES");
  for (const std::size_t input : inputs) {
    DETFORGE_CHECK(features[input].channels == features[inputs.front()].channels,
                   "the RPN's feature maps have different numbers of channels",
                   "choose maps of a feature pyramid");
  }
  return features[inputs.front()].channels;
}

// [N,A*D,H,W] -> [N,H*W*A,D]
Tensor anchors_last(const Tensor& map, std::int64_t per_anchor) {
  const std::int64_t anchors = map.size(1) / per_anchor;
  return map.view({map.size(0), anchors, per_anchor, map.size(2), map.size(3)})
      .permute({0, 3, 4, 1, 2})
      .reshape({map.size(0), map.size(2) * map.size(3) * anchors, per_anchor});
}

Tensor inside_image(const Tensor& boxes, ImageSize size, double threshold) {
  return (boxes.select(1, 0) >= -threshold)
      .logical_and(boxes.select(1, 1) >= -threshold)
      .logical_and(boxes.select(1, 2) < static_cast<double>(size.width) + threshold)
      .logical_and(boxes.select(1, 3) < static_cast<double>(size.height) + threshold);
}

template <typename Member>
Tensor concatenate(const std::vector<LevelPredictions>& levels, Member member, std::int64_t dim) {
  std::vector<Tensor> parts;
  for (const LevelPredictions& level : levels) {
    parts.push_back(level.*member);
  }
  return torch::cat(parts, dim);
}

}  // namespace

RpnImpl::RpnImpl(const RpnOptions& options, const std::vector<FeatureSpec>& features)
    : options_(options),
      inputs_(find_features(features, options.in_features)),
      anchor_generator_(options.anchors, strides_of(features, inputs_)),
      box_coder_(options.box_weights),
      matcher_(options.matcher) {
  options_.train.reject_non_finite = true;
  head_ = register_module(
      "rpn_head", RpnHead(RpnHeadOptions{.in_channels = common_channels(features, inputs_),
                                         .anchors_per_cell = anchor_generator_.anchors_per_cell(),
                                         .conv_dims = options.conv_dims}));
}

RpnImpl::Output RpnImpl::forward(const ImageBatch& images, const std::vector<Tensor>& features) {
  std::vector<Tensor> maps;
  std::vector<ImageSize> sizes;
  for (const std::size_t input : inputs_) {
    maps.push_back(features.at(input));
    sizes.push_back({maps.back().size(2), maps.back().size(3)});
  }
  const std::vector<Tensor> anchors = anchor_generator_.grid(sizes);
  Output output;
  output.sparse_maps = trains_sparsely(sizes) ? maps : std::vector<Tensor>{};
  const torch::AutoGradMode track_all_cells(torch::GradMode::is_enabled() &&
                                            output.sparse_maps.empty());
  const std::vector<RpnHeadImpl::Output> predictions = head_->forward(maps);
  for (std::size_t level = 0; level < maps.size(); ++level) {
    output.levels.push_back({.logits = anchors_last(predictions[level].logits, 1).squeeze(2),
                             .deltas = anchors_last(predictions[level].deltas, 4),
                             .anchors = anchors[level].to(maps[level].device())});
  }
  output.proposals = find_top_proposals(output.levels, images, box_coder_,
                                        is_training() ? options_.train : options_.test);
  return output;
}

// Only sampled anchors have a gradient: a fraction of a percent of the cells of a large image.
bool RpnImpl::trains_sparsely(const std::vector<ImageSize>& map_sizes) const {
  std::int64_t cells = 0;
  for (const ImageSize& size : map_sizes) {
    cells += size.height * size.width;
  }
  return is_training() && torch::GradMode::is_enabled() && head_->can_choose() &&
         static_cast<double>(options_.sampling.batch_size) <
             options_.sparse_fraction * static_cast<double>(cells);
}

AnchorTargets RpnImpl::label_anchors(const Tensor& anchors,
                                     const ImageBatch& images,
                                     std::size_t index,
                                     const Targets& targets) const {
  const Matches matches = matcher_.match_boxes(targets.boxes, anchors);
  Tensor candidates = matches.labels;
  if (options_.boundary_threshold >= 0) {
    const Tensor inside = inside_image(anchors, images.sizes[index], options_.boundary_threshold);
    candidates = torch::where(inside, candidates, torch::full_like(candidates, -1));
  }
  const SampledIndices sampled = subsample_labels(
      candidates, options_.sampling, Rng(images.rng_keys.at(index), RngPurpose::kAnchorSampling));
  AnchorTargets result{.labels = torch::full_like(candidates, -1), .boxes = torch::zeros({0, 4})};
  result.labels.index_fill_(0, sampled.positive, 1).index_fill_(0, sampled.negative, 0);
  if (sampled.positive.numel() > 0) {
    result.boxes =
        targets.boxes.index_select(0, matches.gt_index.index_select(0, sampled.positive));
  }
  return result;
}

RpnHeadImpl::AnchorOutput RpnImpl::predictions_at(const Output& output,
                                                  const Tensor& anchors) const {
  if (!output.sparse_maps.empty()) {
    return head_->forward_at(output.sparse_maps, anchors);
  }
  const Tensor logits = concatenate(output.levels, &LevelPredictions::logits, 1).reshape({-1});
  const Tensor deltas = concatenate(output.levels, &LevelPredictions::deltas, 1).reshape({-1, 4});
  return {.logits = logits.index_select(0, anchors), .deltas = deltas.index_select(0, anchors)};
}

LossMap RpnImpl::losses(const Output& output,
                        const ImageBatch& images,
                        const std::vector<Targets>& targets,
                        const LossCounts* whole) const {
  const Tensor anchors = concatenate(output.levels, &LevelPredictions::anchors, 0);
  std::vector<Tensor> labels;
  std::vector<Tensor> gt_boxes;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const AnchorTargets target = label_anchors(anchors, images, i, targets[i]);
    labels.push_back(target.labels);
    gt_boxes.push_back(target.boxes);
  }
  const Tensor all_labels = torch::cat(labels);  // [N * R]
  const Tensor used = (all_labels >= 0).nonzero().squeeze(1);
  const RpnHeadImpl::AnchorOutput predicted = predictions_at(output, used);
  const Tensor used_labels = all_labels.index_select(0, used);
  const Tensor positive = (used_labels == 1).nonzero().squeeze(1);  // positions in `used`

  const Tensor cls_loss = sigmoid_bce_loss_sum(predicted.logits, used_labels.to(torch::kFloat));
  const Tensor reference = used.index_select(0, positive).remainder(anchors.size(0));
  const Tensor loc_loss =
      box_regression_loss_sum({.deltas = predicted.deltas.index_select(0, positive),
                               .reference = anchors.index_select(0, reference),
                               .gt_boxes = torch::cat(gt_boxes)},
                              box_coder_, options_.box_loss);
  const auto image_count =
      whole ? static_cast<double>(whole->images) : static_cast<double>(targets.size());
  const auto own_images = static_cast<double>(targets.size());
  const double normalizer = static_cast<double>(options_.sampling.batch_size) * image_count;
  return {
      {"loss_rpn_cls", cls_loss * (options_.loss_weight / normalizer), own_images},
      {"loss_rpn_loc", loc_loss * (options_.loss_weight * options_.box_loss_weight / normalizer),
       own_images}};
}

}  // namespace detforge
