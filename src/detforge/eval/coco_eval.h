#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace detforge {

/// One annotated object, with the numbers of the annotation file (original pixels, xywh).
struct EvalGroundTruth {
  std::int64_t image_id = 0;
  std::int64_t category_id = 0;  ///< as in the file, not 0..K-1
  std::int64_t id = 0;           ///< annotation id; only pycocotools_compat looks at it
  double x = 0, y = 0, width = 0, height = 0;
  double area = 0;  ///< as in the file (docs/conventions.md says what stands in for a missing one)
  bool is_crowd = false;
  std::int64_t store_index = -1;  ///< in CocoStore::annotations(), where its mask is; -1 = nowhere
};

/// One detection in original pixels and original ids.
struct EvalDetection {
  std::int64_t image_id = 0;
  std::int64_t category_id = 0;
  double x = 0, y = 0, width = 0, height = 0;
  double score = 0;
};

struct EvalCategory {
  std::int64_t id = 0;
  std::string name = {};  ///< for tables; may be empty
};

/// What detections are judged against. Ids in any order; duplicates in image_ids count once.
struct EvalInputs {
  std::vector<EvalGroundTruth> ground_truth = {};
  std::vector<std::int64_t> image_ids = {};
  std::vector<EvalCategory> categories = {};
};

/// Objects and unmatched detections with an area outside [low, high] are ignored.
struct AreaRange {
  std::string name;
  double low = 0, high = 0;
};

struct CocoEvalOptions {
  std::vector<double> iou_thresholds = {};  ///< rising, at most 64; empty = 0.50, 0.55, ..., 0.95
  std::vector<double> recall_thresholds = {};  ///< rising; empty = 0.00, 0.01, ..., 1.00
  std::vector<std::int64_t> max_dets = {1, 10,
                                        100};  ///< best detections kept per image and category
  std::vector<AreaRange> area_ranges = {       ///< the first is the one of AP, AP50, AP75
      {"all", 0, 1e10},
      {"small", 0, 32 * 32},
      {"medium", 32 * 32, 96 * 96},
      {"large", 96 * 96, 1e10}};
  bool use_categories = true;  ///< false: all categories count as one (pycocotools' useCats = 0)
  bool pycocotools_compat = false;  ///< a match with annotation id 0 counts as a false positive
  bool area_of_boxes = false;  ///< masks: the area of a detection is its box's, as pycocotools has
                               ///< it where the results file has boxes too; else its mask's
  int threads = 0;             ///< 0 = one per processor; the result does not depend on it
};

/// Fills iou[d * ground_truth.size() + g] for the objects of one image and category. The spans hold
/// indices into the arrays given to evaluate_coco(). For a crowd object "IoU" is intersection /
/// detection area. Called from several threads at once.
using IouSource = std::function<void(std::span<const std::uint32_t> detections,
                                     std::span<const std::uint32_t> ground_truth,
                                     std::span<double> iou)>;

/// One line of the summary: AP, AP50, AP75, APs, APm, APl, AR1, AR10, AR100, ARs, ARm, ARl by
/// default.
struct SummaryMetric {
  std::string key;
  bool is_recall = false;
  std::optional<double> iou_threshold;  ///< none = mean over all
  std::string area;
  std::int64_t max_dets = 0;
  std::optional<double> value;  ///< none = nothing to judge (n/a), which is not 0
};

/// Numbers of one category (or of all taken as one). None = n/a.
struct CategoryMetrics {
  EvalCategory category;
  std::optional<double> ap, ap50, ap75;
  std::vector<std::optional<double>> ap_by_area;  ///< one per area range but the first
  std::optional<double> ar;                       ///< at the largest max_dets
  std::int64_t ground_truth_count = 0;            ///< objects that are not crowds
  std::int64_t detection_count = 0;
};

/// All that evaluate_coco() finds. T IoU thresholds, R recall thresholds, K categories by rising id
/// (1 if use_categories is false), A area ranges, M max_dets. Precision and scores are those of the
/// largest max_dets.
struct CocoEvalResult {
  CocoEvalOptions options;               ///< with defaults filled in, max_dets sorted
  std::vector<EvalCategory> categories;  ///< K
  std::vector<double> precision;         ///< [T,R,K,A]; 0 where defined() is false
  std::vector<double> scores;            ///< [T,R,K,A]: score at which that recall is reached
  std::vector<double> recall;            ///< [T,K,A,M]
  std::vector<std::int64_t> judged;      ///< [K,A]: objects that count (no crowd, area in range)
  std::vector<SummaryMetric> summary;
  std::vector<CategoryMetrics> per_category;  ///< K
  std::vector<std::string> notes;  ///< what a reader of the numbers must know (warnings), in words
  std::int64_t image_count = 0, ground_truth_count = 0, detection_count = 0;
  double prepare_s = 0;                  ///< sorting into categories
  double match_s = 0, accumulate_s = 0;  ///< summed over threads

  /// Whether category k has anything to judge in area range a; else its precision and recall are
  /// undefined.
  bool defined(std::size_t k, std::size_t a) const {
    return judged[k * options.area_ranges.size() + a] > 0;
  }
  std::size_t precision_index(std::size_t t, std::size_t r, std::size_t k, std::size_t a) const {
    return ((t * options.recall_thresholds.size() + r) * categories.size() + k) *
               options.area_ranges.size() +
           a;
  }
  std::size_t recall_index(std::size_t t, std::size_t k, std::size_t a, std::size_t m) const {
    return ((t * categories.size() + k) * options.area_ranges.size() + a) *
               options.max_dets.size() +
           m;
  }
  /// The summary value called `key` ("AP", "ARm"); none if it is n/a or there is no such line.
  std::optional<double> value(const std::string& key) const;
};

/// COCO's detection metrics, equal to pycocotools' COCOeval.
///   detections       taken by falling score, ties in input order; images by rising id
///   iou              empty = boxes (coco_box_iou)
///   detection_areas  one per detection; empty = width * height
/// Ground truth and detections of images or categories that `inputs` does not list are left out and
/// counted in notes. Undefined values (no object in a category or size range) are none and never
/// enter a mean.
/// Throws Error for scores that are not finite and for options that make no sense.
/// Ref: Lin et al., Microsoft COCO, arXiv:1405.0312; cocodataset.org/#detection-eval.
CocoEvalResult evaluate_coco(const EvalInputs& inputs,
                             std::span<const EvalDetection> detections,
                             const CocoEvalOptions& options = {},
                             const IouSource& iou = {},
                             std::span<const double> detection_areas = {});

/// Intersection over union of two xywh boxes in double; over the detection's own area if the object
/// is a crowd.
double coco_box_iou(const EvalDetection& detection, const EvalGroundTruth& object);

}  // namespace detforge
