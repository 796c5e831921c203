#include "detforge/models/rcnn/find_proposals.h"

#include <torch/types.h>

#include "detforge/core/error.h"
#include "detforge/models/top_k.h"
#include "detforge/ops/nms.h"

namespace detforge {
namespace {

struct Candidates {
  Tensor boxes, logits, levels;
};

Candidates select(const Candidates& from, const Tensor& index_or_mask) {
  const Tensor index = index_or_mask.scalar_type() == torch::kBool
                           ? index_or_mask.nonzero().squeeze(1)
                           : index_or_mask;
  return {from.boxes.index_select(0, index), from.logits.index_select(0, index),
          from.levels.index_select(0, index)};
}

// Only the best anchors of each level are decoded.
Candidates best_of_each_level(const std::vector<LevelPredictions>& levels,
                              std::int64_t image,
                              const BoxCoder& box_coder,
                              std::int64_t top_k) {
  std::vector<Tensor> boxes;
  std::vector<Tensor> logits;
  std::vector<Tensor> ids;
  for (std::size_t level = 0; level < levels.size(); ++level) {
    const Tensor scores = levels[level].logits[image];
    const Tensor best = top_k_indices(scores, top_k);
    logits.push_back(scores.index_select(0, best));
    boxes.push_back(box_coder.decode(levels[level].deltas[image].index_select(0, best),
                                     levels[level].anchors.index_select(0, best)));
    ids.push_back(torch::full_like(best, static_cast<std::int64_t>(level)));
  }
  return {torch::cat(boxes), torch::cat(logits), torch::cat(ids)};
}

Candidates drop_non_finite(const Candidates& candidates,
                           const ImageBatch& images,
                           std::int64_t image,
                           bool reject) {
  const Tensor finite =
      candidates.boxes.isfinite().all(1).logical_and(candidates.logits.isfinite());
  if (finite.all().item<bool>()) {
    return candidates;
  }
  if (reject) {
    const auto bad = (finite.logical_not()).sum().item<std::int64_t>();
    Error error(std::to_string(bad) + " of " + std::to_string(finite.numel()) +
                    " RPN proposals have infinite or NaN boxes or scores: training has diverged",
                "lower SOLVER.BASE_LR, lengthen the warm-up, or clip gradients",
                Error::Kind::kNonFinite);
    const auto position = static_cast<std::size_t>(image);
    error.add_where(position < images.paths.size()
                        ? images.paths[position]
                        : "image " + std::to_string(image) + " of the batch");
    throw error;
  }
  return select(candidates, finite);
}

}  // namespace

std::vector<Proposals> find_top_proposals(const std::vector<LevelPredictions>& levels,
                                          const ImageBatch& images,
                                          const BoxCoder& box_coder,
                                          const ProposalOptions& options) {
  const torch::NoGradGuard no_grad;
  std::vector<Proposals> proposals;
  for (std::int64_t image = 0; image < images.count(); ++image) {
    Candidates found = best_of_each_level(levels, image, box_coder, options.pre_nms_top_k);
    found = drop_non_finite(found, images, image, options.reject_non_finite);
    found.boxes = clip_boxes(found.boxes, images.sizes[static_cast<std::size_t>(image)]);
    found = select(found, nonempty_boxes(found.boxes, options.min_size));
    found = select(found, batched_nms(found.boxes, found.logits, found.levels,
                                      options.nms_threshold, options.post_nms_top_k));
    proposals.push_back({found.boxes, found.logits});
  }
  return proposals;
}

}  // namespace detforge
