#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "detforge/eval/coco_eval.h"

namespace detforge {

/// Where a detection or object belongs: image position (by rising id) and index into the caller's
/// array.
struct EvalRecord {
  std::uint32_t image = 0;
  std::uint32_t index = 0;
  double score = 0;  ///< 0 for objects
};

/// Detections and objects sorted into categories once, without a table of (image, category) cells:
/// memory grows with the number of records only.
class EvalGrouping {
 public:
  /// Leaves out what `inputs` does not list. With `use_categories` false there is one group of
  /// everything, in the order of category ids (this decides ties as in pycocotools).
  EvalGrouping(const EvalInputs& inputs,
               std::span<const EvalDetection> detections,
               bool use_categories);

  std::size_t category_count() const { return detection_starts_.size() - 1; }
  std::size_t image_count() const { return image_ids_.size(); }
  const std::vector<EvalCategory>& categories() const {
    return categories_;
  }  ///< by rising id; one if merged
  const std::vector<std::int64_t>& image_ids() const { return image_ids_; }  ///< rising, unique
  std::size_t skipped_detections() const { return skipped_detections_; }
  std::size_t skipped_objects() const { return skipped_objects_; }

  std::span<EvalRecord> detections(std::size_t k) {
    return group(detections_, detection_starts_, k);
  }
  std::span<EvalRecord> objects(std::size_t k) { return group(objects_, object_starts_, k); }
  std::span<const EvalRecord> all_objects() const { return objects_; }

  /// Sorts category k by image, detections by falling score inside an image; ties keep input order.
  /// Different categories may be sorted from different threads.
  void sort_category(std::size_t k);

 private:
  static std::span<EvalRecord> group(std::vector<EvalRecord>& records,
                                     const std::vector<std::size_t>& starts,
                                     std::size_t k) {
    return std::span(records).subspan(starts[k], starts[k + 1] - starts[k]);
  }

  std::vector<EvalCategory> categories_;
  std::vector<std::int64_t> image_ids_;
  std::vector<EvalRecord> detections_, objects_;               // by category
  std::vector<std::size_t> detection_starts_, object_starts_;  // [K+1]
  std::size_t skipped_detections_ = 0, skipped_objects_ = 0;
};

}  // namespace detforge
