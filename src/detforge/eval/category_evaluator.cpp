#include "detforge/eval/category_evaluator.h"

#include <algorithm>

#include "detforge/core/timer.h"

namespace detforge {
namespace {

/// The records of `image` at the front of `records`, which are sorted by image.
std::span<const EvalRecord> front_image(std::span<const EvalRecord> records, std::uint32_t image) {
  std::size_t count = 0;
  while (count < records.size() && records[count].image == image) {
    ++count;
  }
  return records.first(count);
}

}  // namespace

CategoryEvaluator::CategoryEvaluator(const EvalArrays& arrays,
                                     EvalGrouping& grouping,
                                     CocoEvalResult& result)
    : arrays_(arrays),
      grouping_(grouping),
      result_(result),
      matcher_(result.options.iou_thresholds) {}

void CategoryEvaluator::evaluate(std::size_t k) {
  Timer timer;
  grouping_.sort_category(k);
  match_category(k);
  match_s_ += timer.restart();
  const std::size_t area_count = result_.options.area_ranges.size();
  const CategoryMatches matches = {
      .scores = scores_,
      .ranks = ranks_,
      .flags = flags_,
      .judged = std::span(result_.judged).subspan(k * area_count, area_count)};
  accumulator_.accumulate(matches, k, result_);
  accumulate_s_ += timer.elapsed_s();
}

void CategoryEvaluator::match_category(std::size_t k) {
  std::span<const EvalRecord> detections = grouping_.detections(k), objects = grouping_.objects(k);
  list_kept_detections(detections);
  flags_.resize(result_.options.area_ranges.size() * scores_.size());
  const auto limit = static_cast<std::size_t>(result_.options.max_dets.back());
  std::size_t first = 0;
  while (!detections.empty() || !objects.empty()) {
    const std::uint32_t image = objects.empty() ? detections.front().image
                                : detections.empty()
                                    ? objects.front().image
                                    : std::min(detections.front().image, objects.front().image);
    const auto image_detections = front_image(detections, image);
    const auto image_objects = front_image(objects, image);
    const auto kept = image_detections.first(std::min(limit, image_detections.size()));
    match_cell(k, kept, image_objects, first);
    first += kept.size();
    detections = detections.subspan(image_detections.size());
    objects = objects.subspan(image_objects.size());
  }
}

void CategoryEvaluator::list_kept_detections(std::span<const EvalRecord> detections) {
  scores_.clear();
  ranks_.clear();
  std::uint32_t rank = 0;
  for (std::size_t i = 0; i < detections.size(); ++i) {
    rank = i > 0 && detections[i].image == detections[i - 1].image ? rank + 1 : 0;
    if (static_cast<std::int64_t>(rank) < result_.options.max_dets.back()) {
      scores_.push_back(detections[i].score);
      ranks_.push_back(rank);
    }
  }
}

void CategoryEvaluator::match_cell(std::size_t k,
                                   std::span<const EvalRecord> detections,
                                   std::span<const EvalRecord> objects,
                                   std::size_t first) {
  load_cell(detections, objects);
  fill_ious();
  const auto& ranges = result_.options.area_ranges;
  for (std::size_t a = 0; a < ranges.size(); ++a) {
    result_.judged[k * ranges.size() + a] += matcher_.match(
        {.iou = iou_,
         .detection_areas = detection_areas_,
         .object_areas = object_areas_,
         .is_crowd = is_crowd_,
         .hides_match = hides_match_},
        ranges[a], std::span(flags_).subspan(a * scores_.size() + first, detections.size()));
  }
}

void CategoryEvaluator::load_cell(std::span<const EvalRecord> detections,
                                  std::span<const EvalRecord> objects) {
  cell_detections_.clear();
  detection_areas_.clear();
  for (const EvalRecord& record : detections) {
    const EvalDetection& detection = arrays_.detections[record.index];
    cell_detections_.push_back(record.index);
    detection_areas_.push_back(arrays_.detection_areas.empty()
                                   ? detection.width * detection.height
                                   : arrays_.detection_areas[record.index]);
  }
  cell_objects_.clear();
  object_areas_.clear();
  is_crowd_.clear();
  hides_match_.clear();
  for (const EvalRecord& record : objects) {
    const EvalGroundTruth& object = arrays_.inputs.ground_truth[record.index];
    cell_objects_.push_back(record.index);
    object_areas_.push_back(object.area);
    is_crowd_.push_back(object.is_crowd ? 1 : 0);
    hides_match_.push_back(result_.options.pycocotools_compat && object.id == 0 ? 1 : 0);
  }
}

void CategoryEvaluator::fill_ious() {
  iou_.resize(cell_detections_.size() * cell_objects_.size());
  if (iou_.empty()) {
    return;
  }
  if (arrays_.iou) {
    arrays_.iou(cell_detections_, cell_objects_, iou_);
    return;
  }
  std::size_t i = 0;
  for (const std::uint32_t d : cell_detections_) {
    for (const std::uint32_t g : cell_objects_) {
      iou_[i++] = coco_box_iou(arrays_.detections[d], arrays_.inputs.ground_truth[g]);
    }
  }
}

}  // namespace detforge
