#include "detforge/eval/mask_eval.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include <fmt/format.h>

#include "detforge/core/error.h"
#include "detforge/core/timer.h"
#include "detforge/eval/work_queue.h"
#include "detforge/structures/rle_overlap.h"

namespace detforge {
namespace {

/// The IoU of the masks of one image and category: an IouSource.
class MaskIou {
 public:
  MaskIou(const EvalInputs& inputs, const RleList& gt_masks, const RleList& masks, int threads)
      : inputs_(inputs),
        gt_masks_(gt_masks),
        masks_(masks),
        gt_extents_(extents_of(gt_masks, threads)),
        extents_(extents_of(masks, threads)) {}

  void operator()(std::span<const std::uint32_t> detections,
                  std::span<const std::uint32_t> objects,
                  std::span<double> iou) const {
    std::size_t i = 0;
    for (const std::uint32_t d : detections) {
      for (const std::uint32_t g : objects) {
        iou[i++] = pair(d, g);
      }
    }
  }

  std::vector<double> areas() const;
  /// Objects that no mask can match, crowds left out.
  std::int64_t objects_without_mask() const;

 private:
  static std::vector<MaskExtent> extents_of(const RleList& masks, int threads);
  double pair(std::uint32_t detection, std::uint32_t object) const;

  const EvalInputs& inputs_;
  const RleList &gt_masks_, &masks_;
  std::vector<MaskExtent> gt_extents_, extents_;
};

std::vector<MaskExtent> MaskIou::extents_of(const RleList& masks, int threads) {
  constexpr std::size_t kBlock = 1024;
  std::vector<MaskExtent> extents(masks.size());
  run_in_threads(threads, (masks.size() + kBlock - 1) / kBlock, [&](WorkQueue& queue) {
    while (const auto block = queue.next()) {
      const std::size_t end = std::min(masks.size(), (*block + 1) * kBlock);
      for (std::size_t i = *block * kBlock; i < end; ++i) {
        extents[i] = mask_extent(masks[i]);
      }
    }
  });
  return extents;
}

double MaskIou::pair(std::uint32_t detection, std::uint32_t object) const {
  const EvalGroundTruth& truth = inputs_.ground_truth[object];
  try {
    return rle_iou(masks_[detection], extents_[detection], gt_masks_[object], gt_extents_[object],
                   truth.is_crowd);
  } catch (Error& error) {
    error.add_where(fmt::format("image {}, annotation {}", truth.image_id, truth.id));
    throw;
  }
}

std::vector<double> MaskIou::areas() const {
  std::vector<double> areas;
  areas.reserve(extents_.size());
  for (const MaskExtent& extent : extents_) {
    areas.push_back(static_cast<double>(extent.area));
  }
  return areas;
}

std::int64_t MaskIou::objects_without_mask() const {
  std::int64_t count = 0;
  for (std::size_t i = 0; i < gt_extents_.size(); ++i) {
    count += gt_extents_[i].area == 0 && !inputs_.ground_truth[i].is_crowd ? 1 : 0;
  }
  return count;
}

}  // namespace

CocoEvalResult evaluate_coco_masks(const EvalInputs& inputs,
                                   const RleList& gt_masks,
                                   std::span<const EvalDetection> detections,
                                   const RleList& detection_masks,
                                   const CocoEvalOptions& options) {
  DETFORGE_CHECK(
      gt_masks.size() == inputs.ground_truth.size(),
      fmt::format("{} masks for {} objects", gt_masks.size(), inputs.ground_truth.size()),
      "give one mask per object, in the same order");
  DETFORGE_CHECK(
      detection_masks.size() == detections.size(),
      fmt::format("{} masks for {} detections", detection_masks.size(), detections.size()),
      "give one mask per detection, in the same order");
  const Timer timer;
  const MaskIou iou(inputs, gt_masks, detection_masks, options.threads);
  const double extents_s = timer.elapsed_s();
  CocoEvalResult result =
      evaluate_coco(inputs, detections, options, std::cref(iou),
                    options.area_of_boxes ? std::vector<double>() : iou.areas());
  result.prepare_s += extents_s;
  if (const std::int64_t missing = iou.objects_without_mask(); missing > 0) {
    result.notes.push_back(fmt::format(
        "{} object(s) have no mask, or none with a pixel: they count as never found", missing));
  }
  return result;
}

}  // namespace detforge
