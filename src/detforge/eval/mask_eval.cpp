#include "detforge/eval/mask_eval.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <fmt/format.h>

#include "detforge/core/error.h"
#include "detforge/core/timer.h"
#include "detforge/eval/work_queue.h"
#include "detforge/structures/rle_overlap.h"

namespace detforge {
namespace {

std::vector<MaskExtent> extents_of(const RleList& masks, int threads) {
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

std::vector<double> areas_of(std::span<const MaskExtent> extents) {
  std::vector<double> areas;
  areas.reserve(extents.size());
  for (const MaskExtent& extent : extents) {
    areas.push_back(static_cast<double>(extent.area));
  }
  return areas;
}

void note_missing_masks(const EvalInputs& inputs,
                        std::span<const MaskExtent> gt_extents,
                        CocoEvalResult& result) {
  std::int64_t missing = 0;
  for (std::size_t i = 0; i < gt_extents.size(); ++i) {
    missing += gt_extents[i].area == 0 && !inputs.ground_truth[i].is_crowd ? 1 : 0;
  }
  if (missing > 0) {
    result.notes.push_back(fmt::format(
        "{} object(s) have no mask, or none with a pixel: they count as never found", missing));
  }
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
  Timer timer;
  const std::vector<MaskExtent> gt_extents = extents_of(gt_masks, options.threads);
  const std::vector<MaskExtent> extents = extents_of(detection_masks, options.threads);
  const double extents_s = timer.elapsed_s();
  const IouSource mask_iou = [&](std::span<const std::uint32_t> cell_detections,
                                 std::span<const std::uint32_t> cell_objects,
                                 std::span<double> iou) {
    std::size_t i = 0;
    for (const std::uint32_t d : cell_detections) {
      for (const std::uint32_t g : cell_objects) {
        try {
          iou[i++] = rle_iou(detection_masks[d], extents[d], gt_masks[g], gt_extents[g],
                             inputs.ground_truth[g].is_crowd);
        } catch (Error& error) {
          error.add_where(fmt::format("image {}, annotation {}", inputs.ground_truth[g].image_id,
                                      inputs.ground_truth[g].id));
          throw;
        }
      }
    }
  };
  const std::vector<double> areas =
      options.area_of_boxes ? std::vector<double>() : areas_of(extents);
  CocoEvalResult result = evaluate_coco(inputs, detections, options, mask_iou, areas);
  result.prepare_s += extents_s;
  note_missing_masks(inputs, gt_extents, result);
  return result;
}

}  // namespace detforge
