#include "detforge/eval/grouping.h"

#include <algorithm>
#include <limits>

#include "detforge/core/error.h"

namespace detforge {
namespace {

constexpr std::uint32_t kLeftOut = std::numeric_limits<std::uint32_t>::max();

/// Position of `id` in a rising list, kLeftOut if it is not there.
std::uint32_t position_of(const std::vector<std::int64_t>& ids, std::int64_t id) {
  const auto found = std::lower_bound(ids.begin(), ids.end(), id);
  return found != ids.end() && *found == id ? static_cast<std::uint32_t>(found - ids.begin())
                                            : kLeftOut;
}

double score_of(const EvalDetection& detection) {
  return detection.score;
}
double score_of(const EvalGroundTruth&) {
  return 0;
}

/// Counting sort by category, stable. Returns how many items were left out.
template <typename Item>
std::size_t sort_into_categories(std::span<const Item> items,
                                 const std::vector<std::int64_t>& image_ids,
                                 const std::vector<std::int64_t>& category_ids,
                                 std::vector<EvalRecord>& records,
                                 std::vector<std::size_t>& starts) {
  DETFORGE_CHECK(items.size() < kLeftOut, "more than 4 billion detections or objects",
                 "evaluate in parts");
  std::vector<std::uint32_t> categories(items.size()), images(items.size());
  starts.assign(category_ids.size() + 1, 0);
  for (std::size_t i = 0; i < items.size(); ++i) {
    images[i] = position_of(image_ids, items[i].image_id);
    categories[i] =
        images[i] == kLeftOut ? kLeftOut : position_of(category_ids, items[i].category_id);
    if (categories[i] != kLeftOut) {
      ++starts[categories[i] + 1];
    }
  }
  for (std::size_t k = 0; k < category_ids.size(); ++k) {
    starts[k + 1] += starts[k];
  }
  records.resize(starts.back());
  std::vector<std::size_t> next(starts.begin(), starts.end() - 1);
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (categories[i] != kLeftOut) {
      records[next[categories[i]]++] = {images[i], static_cast<std::uint32_t>(i),
                                        score_of(items[i])};
    }
  }
  return items.size() - records.size();
}

}  // namespace

EvalGrouping::EvalGrouping(const EvalInputs& inputs,
                           std::span<const EvalDetection> detections,
                           bool use_categories)
    : categories_(inputs.categories), image_ids_(inputs.image_ids) {
  std::sort(image_ids_.begin(), image_ids_.end());
  image_ids_.erase(std::unique(image_ids_.begin(), image_ids_.end()), image_ids_.end());
  std::stable_sort(categories_.begin(), categories_.end(),
                   [](const auto& a, const auto& b) { return a.id < b.id; });
  categories_.erase(std::unique(categories_.begin(), categories_.end(),
                                [](const auto& a, const auto& b) { return a.id == b.id; }),
                    categories_.end());
  std::vector<std::int64_t> category_ids;
  for (const EvalCategory& category : categories_) {
    category_ids.push_back(category.id);
  }
  skipped_detections_ =
      sort_into_categories(detections, image_ids_, category_ids, detections_, detection_starts_);
  skipped_objects_ = sort_into_categories(std::span<const EvalGroundTruth>(inputs.ground_truth),
                                          image_ids_, category_ids, objects_, object_starts_);
  if (!use_categories) {
    categories_ = {{.id = 0, .name = "all categories"}};
    detection_starts_ = {0, detections_.size()};
    object_starts_ = {0, objects_.size()};
  }
}

void EvalGrouping::sort_category(std::size_t k) {
  const auto d = detections(k);
  std::stable_sort(d.begin(), d.end(), [](const EvalRecord& a, const EvalRecord& b) {
    return a.image != b.image ? a.image < b.image : a.score > b.score;
  });
  const auto g = objects(k);
  std::stable_sort(g.begin(), g.end(),
                   [](const EvalRecord& a, const EvalRecord& b) { return a.image < b.image; });
}

}  // namespace detforge
