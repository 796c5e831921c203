#include "detforge/eval/eval_notes.h"

#include <algorithm>

#include <fmt/format.h>

namespace detforge {
namespace {

struct Crowding {
  std::int64_t images = 0;  // with more objects than the limit
  std::int64_t most = 0, most_image_id = 0;
};

/// Images whose objects cannot all be found by `limit` detections; crowds do not count.
Crowding crowded_images(const EvalInputs& inputs,
                        const EvalGrouping& grouping,
                        std::int64_t limit) {
  std::vector<std::int64_t> counts(grouping.image_count(), 0);
  for (const EvalRecord& record : grouping.all_objects()) {
    counts[record.image] += inputs.ground_truth[record.index].is_crowd ? 0 : 1;
  }
  Crowding crowding;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    crowding.images += counts[i] > limit ? 1 : 0;
    if (counts[i] > crowding.most) {
      crowding.most = counts[i];
      crowding.most_image_id = grouping.image_ids()[i];
    }
  }
  return crowding;
}

void note_detections(const CocoEvalResult& result, std::vector<std::string>& notes) {
  if (result.detection_count == 0) {
    notes.push_back(
        "0 detections: AP and AR are 0 wherever there are objects (lower the score threshold, or "
        "the "
        "model has not learnt yet)");
  }
  const auto& judged = result.judged;
  if (std::all_of(judged.begin(), judged.end(), [](std::int64_t count) { return count == 0; })) {
    const double images = static_cast<double>(std::max<std::int64_t>(result.image_count, 1));
    notes.push_back(fmt::format(
        "no object to judge: AP and AR are n/a; {} false positives in {} images, {:.2f} per image",
        result.detection_count, result.image_count,
        static_cast<double>(result.detection_count) / images));
  }
}

}  // namespace

std::vector<std::string> eval_notes(const EvalInputs& inputs,
                                    const EvalGrouping& grouping,
                                    const CocoEvalResult& result) {
  std::vector<std::string> notes;
  note_detections(result, notes);
  if (grouping.skipped_detections() > 0) {
    notes.push_back(
        fmt::format("{} detections of images or categories that are not evaluated were left out",
                    grouping.skipped_detections()));
  }
  if (grouping.skipped_objects() > 0) {
    notes.push_back(
        fmt::format("{} objects of images or categories that are not evaluated were left out",
                    grouping.skipped_objects()));
  }
  const std::int64_t limit = result.options.max_dets.back();
  const Crowding crowding = crowded_images(inputs, grouping, limit);
  if (crowding.images > 0) {
    notes.push_back(fmt::format(
        "{} image(s) have more than {} objects (image {} has {}): AP cannot reach 1 if the model "
        "gives, or max_dets keeps, no more than {} detections",
        crowding.images, limit, crowding.most_image_id, crowding.most, limit));
  }
  const bool has_id_zero =
      std::any_of(inputs.ground_truth.begin(), inputs.ground_truth.end(),
                  [](const EvalGroundTruth& object) { return object.id == 0; });
  if (has_id_zero && result.options.pycocotools_compat) {
    notes.push_back(
        "annotation id 0: counted as never found, as pycocotools does; without pycocotools_compat "
        "the "
        "numbers are the right ones");
  } else if (has_id_zero) {
    notes.push_back(
        "annotation id 0: pycocotools counts it as never found and gives lower numbers for this "
        "file "
        "(pycocotools_compat gives the same)");
  }
  return notes;
}

}  // namespace detforge
