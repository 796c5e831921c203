#include "eval/naive_coco_eval.h"

#include <algorithm>
#include <map>
#include <set>

namespace detforge::test {
namespace {

struct Judgement {
  double score;
  bool right;
};

/// The four things that a precision-recall curve is about.
struct Question {
  double iou_threshold;
  std::set<std::int64_t> categories;
  AreaRange area;
  std::size_t max_dets;
};

double overlap(double a, double a_length, double b, double b_length) {
  return std::max(0.0, std::min(a + a_length, b + b_length) - std::max(a, b));
}

double naive_iou(const EvalDetection& d, const EvalGroundTruth& g) {
  const double shared = overlap(d.x, d.width, g.x, g.width) * overlap(d.y, d.height, g.y, g.height);
  const double both =
      g.is_crowd ? d.width * d.height : d.width * d.height + g.width * g.height - shared;
  return shared > 0 ? shared / both : 0.0;
}

bool in_range(double area, const AreaRange& range) {
  return range.low <= area && area <= range.high;
}

/// The free object of one kind (counting or ignored) that fits best, nullptr if none reaches the
/// threshold.
const EvalGroundTruth* best_of(const EvalDetection& d,
                               const std::vector<const EvalGroundTruth*>& objects,
                               const std::set<const EvalGroundTruth*>& taken,
                               double threshold) {
  const EvalGroundTruth* best = nullptr;
  double best_iou = 0;
  for (const EvalGroundTruth* object : objects) {
    const bool free = object->is_crowd || taken.count(object) == 0;
    const double iou = naive_iou(d, *object);
    if (free && iou >= threshold && iou >= best_iou) {
      best = object;
      best_iou = iou;
    }
  }
  return best;
}

/// Judges the detections of one image; appends right and wrong ones, leaves out ignored ones.
void judge_image(const Question& question,
                 std::vector<EvalDetection> detections,
                 const std::vector<EvalGroundTruth>& objects,
                 std::size_t detections_for_matching,
                 std::vector<Judgement>& judgements) {
  std::stable_sort(detections.begin(), detections.end(),
                   [](const auto& a, const auto& b) { return a.score > b.score; });
  detections.resize(
      std::min(detections.size(), std::min(question.max_dets, detections_for_matching)));
  std::vector<const EvalGroundTruth*> counting, ignored;
  for (const EvalGroundTruth& object : objects) {
    (!object.is_crowd && in_range(object.area, question.area) ? counting : ignored)
        .push_back(&object);
  }
  std::set<const EvalGroundTruth*> taken;
  for (const EvalDetection& d : detections) {
    if (const auto* object = best_of(d, counting, taken, question.iou_threshold)) {
      taken.insert(object);
      judgements.push_back({d.score, true});
    } else if (const auto* other = best_of(d, ignored, taken, question.iou_threshold)) {
      taken.insert(other);
    } else if (in_range(d.width * d.height, question.area)) {
      judgements.push_back({d.score, false});
    }
  }
}

std::vector<Judgement> judge(const Question& question,
                             const EvalInputs& inputs,
                             const std::vector<EvalDetection>& detections,
                             std::size_t largest_max_dets,
                             std::size_t& object_count) {
  std::vector<Judgement> judgements;
  object_count = 0;
  for (const std::int64_t image :
       std::set<std::int64_t>(inputs.image_ids.begin(), inputs.image_ids.end())) {
    std::vector<EvalDetection> image_detections;
    std::vector<EvalGroundTruth> image_objects;
    for (const std::int64_t category :
         question.categories) {  // category by category: it decides ties
      for (const auto& d : detections) {
        if (d.image_id == image && d.category_id == category) {
          image_detections.push_back(d);
        }
      }
      for (const auto& g : inputs.ground_truth) {
        if (g.image_id == image && g.category_id == category) {
          image_objects.push_back(g);
          object_count += !g.is_crowd && in_range(g.area, question.area) ? 1 : 0;
        }
      }
    }
    judge_image(question, image_detections, image_objects, largest_max_dets, judgements);
  }
  std::stable_sort(judgements.begin(), judgements.end(),
                   [](const auto& a, const auto& b) { return a.score > b.score; });
  return judgements;
}

/// The best precision at any position whose recall is at least `wanted`; 0 if there is none.
double precision_at(const std::vector<Judgement>& judgements,
                    std::size_t object_count,
                    double wanted) {
  double best = 0, right = 0;
  for (std::size_t i = 0; i < judgements.size(); ++i) {
    right += judgements[i].right ? 1 : 0;
    if (right / static_cast<double>(object_count) >= wanted) {
      best = std::max(best, right / static_cast<double>(i + 1));
    }
  }
  return best;
}

}  // namespace

NaiveResult naive_coco_eval(const EvalInputs& inputs,
                            const std::vector<EvalDetection>& detections,
                            const CocoEvalOptions& options) {
  std::set<std::int64_t> ids;
  for (const EvalCategory& category : inputs.categories) {
    ids.insert(category.id);
  }
  std::vector<std::set<std::int64_t>> groups;
  for (const std::int64_t id : ids) {
    groups.push_back({id});
  }
  if (!options.use_categories) {
    groups = {ids};
  }
  const std::size_t T = options.iou_thresholds.size(), R = options.recall_thresholds.size(),
                    K = groups.size();
  const std::size_t A = options.area_ranges.size(), M = options.max_dets.size();
  NaiveResult result{std::vector<double>(T * R * K * A, -1),
                     std::vector<double>(T * K * A * M, -1)};
  const auto largest = static_cast<std::size_t>(options.max_dets.back());
  for (std::size_t t = 0; t < T; ++t) {
    for (std::size_t k = 0; k < K; ++k) {
      for (std::size_t a = 0; a < A; ++a) {
        for (std::size_t m = 0; m < M; ++m) {
          const Question question{options.iou_thresholds[t], groups[k], options.area_ranges[a],
                                  static_cast<std::size_t>(options.max_dets[m])};
          std::size_t objects = 0;
          const auto judgements = judge(question, inputs, detections, largest, objects);
          if (objects == 0) {
            continue;
          }
          const auto right = std::count_if(judgements.begin(), judgements.end(),
                                           [](const auto& j) { return j.right; });
          result.recall[((t * K + k) * A + a) * M + m] =
              static_cast<double>(right) / static_cast<double>(objects);
          for (std::size_t r = 0; r < R && m + 1 == M; ++r) {
            result.precision[((t * R + r) * K + k) * A + a] =
                precision_at(judgements, objects, options.recall_thresholds[r]);
          }
        }
      }
    }
  }
  return result;
}

}  // namespace detforge::test
