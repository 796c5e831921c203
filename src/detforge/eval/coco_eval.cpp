#include "detforge/eval/coco_eval.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <numeric>

#include <fmt/format.h>

#include "detforge/core/error.h"
#include "detforge/core/timer.h"
#include "detforge/eval/category_evaluator.h"
#include "detforge/eval/eval_notes.h"
#include "detforge/eval/grouping.h"
#include "detforge/eval/summary.h"
#include "detforge/eval/work_queue.h"

namespace detforge {
namespace {

/// numpy.linspace, rounding included: the thresholds must be pycocotools' to the last bit.
std::vector<double> linspace(double first, double last, std::size_t count) {
  const double step = (last - first) / static_cast<double>(count - 1);
  std::vector<double> values(count, last);
  for (std::size_t i = 0; i + 1 < count; ++i) {
    values[i] = static_cast<double>(i) * step + first;
  }
  return values;
}

CocoEvalOptions with_defaults(CocoEvalOptions options) {
  if (options.iou_thresholds.empty()) {
    options.iou_thresholds = linspace(0.5, 0.95, 10);
  }
  if (options.recall_thresholds.empty()) {
    options.recall_thresholds = linspace(0.0, 1.0, 101);
  }
  std::sort(options.max_dets.begin(), options.max_dets.end());
  return options;
}

void check(const CocoEvalOptions& options) {
  DETFORGE_CHECK(options.iou_thresholds.size() <= 64,
                 fmt::format("{} IoU thresholds", options.iou_thresholds.size()),
                 "give at most 64");
  for (const double threshold : options.iou_thresholds) {
    DETFORGE_CHECK(threshold > 0 && threshold <= 1, fmt::format("IoU threshold {}", threshold),
                   "give thresholds above 0 and up to 1");
  }
  DETFORGE_CHECK(std::is_sorted(options.recall_thresholds.begin(), options.recall_thresholds.end()),
                 "recall thresholds do not rise", "sort them");
  DETFORGE_CHECK(!options.max_dets.empty() && options.max_dets.front() > 0,
                 "max_dets is empty or not positive", "give positive numbers, such as 1, 10, 100");
  DETFORGE_CHECK(!options.area_ranges.empty(), "no area range", "give at least {\"all\", 0, 1e10}");
}

void check_scores(std::span<const EvalDetection> detections) {
  for (const EvalDetection& detection : detections) {
    DETFORGE_CHECK(
        std::isfinite(detection.score),
        fmt::format("a detection of image {} has score {}", detection.image_id, detection.score),
        "look for NaN in the model's output");
  }
}

CocoEvalResult empty_result(const CocoEvalOptions& options,
                            EvalGrouping& grouping,
                            const EvalInputs& inputs) {
  CocoEvalResult result;
  result.options = options;
  result.categories = grouping.categories();
  const std::size_t cells = result.categories.size() * options.area_ranges.size();
  result.judged.assign(cells, 0);
  result.recall.assign(options.iou_thresholds.size() * cells * options.max_dets.size(), 0);
  result.precision.assign(options.iou_thresholds.size() * options.recall_thresholds.size() * cells,
                          0);
  result.scores = result.precision;
  result.image_count = static_cast<std::int64_t>(grouping.image_count());
  for (std::size_t k = 0; k < result.categories.size(); ++k) {
    CategoryMetrics metrics;
    metrics.category = result.categories[k];
    metrics.detection_count = static_cast<std::int64_t>(grouping.detections(k).size());
    for (const EvalRecord& record : grouping.objects(k)) {
      metrics.ground_truth_count += inputs.ground_truth[record.index].is_crowd ? 0 : 1;
    }
    result.detection_count += metrics.detection_count;
    result.ground_truth_count += metrics.ground_truth_count;
    result.per_category.push_back(metrics);
  }
  return result;
}

/// Categories with the most work first, so that no thread is left with a big one at the end.
std::vector<std::size_t> categories_by_work(EvalGrouping& grouping) {
  std::vector<std::size_t> order(grouping.category_count());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto work = [&](std::size_t k) {
    return grouping.detections(k).size() + grouping.objects(k).size();
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return work(a) > work(b); });
  return order;
}

/// Each category is computed by one thread alone, so the result does not depend on their number.
void evaluate_categories(const EvalArrays& arrays, EvalGrouping& grouping, CocoEvalResult& result) {
  const std::vector<std::size_t> order = categories_by_work(grouping);
  std::mutex mutex;
  run_in_threads(result.options.threads, order.size(), [&](WorkQueue& queue) {
    CategoryEvaluator evaluator(arrays, grouping, result);
    while (const auto i = queue.next()) {
      evaluator.evaluate(order[*i]);
    }
    const std::lock_guard lock(mutex);
    result.match_s += evaluator.match_s();
    result.accumulate_s += evaluator.accumulate_s();
  });
}

}  // namespace

double coco_box_iou(const EvalDetection& detection, const EvalGroundTruth& object) {
  const double width = std::min(detection.x + detection.width, object.x + object.width) -
                       std::max(detection.x, object.x);
  const double height = std::min(detection.y + detection.height, object.y + object.height) -
                        std::max(detection.y, object.y);
  if (width <= 0 || height <= 0) {
    return 0;
  }
  const double intersection = width * height;
  const double detection_area = detection.width * detection.height;
  return intersection / (object.is_crowd
                             ? detection_area
                             : detection_area + object.width * object.height - intersection);
}

CocoEvalResult evaluate_coco(const EvalInputs& inputs,
                             std::span<const EvalDetection> detections,
                             const CocoEvalOptions& options,
                             const IouSource& iou,
                             std::span<const double> detection_areas) {
  Timer timer;
  const CocoEvalOptions complete = with_defaults(options);
  check(complete);
  check_scores(detections);
  DETFORGE_CHECK(
      detection_areas.empty() || detection_areas.size() == detections.size(),
      fmt::format("{} areas for {} detections", detection_areas.size(), detections.size()),
      "give one area per detection or none");
  EvalGrouping grouping(inputs, detections, complete.use_categories);
  CocoEvalResult result = empty_result(complete, grouping, inputs);
  result.prepare_s = timer.elapsed_s();
  evaluate_categories({inputs, detections, iou, detection_areas}, grouping, result);
  summarize(result);
  result.notes = eval_notes(inputs, grouping, result);
  return result;
}

}  // namespace detforge
