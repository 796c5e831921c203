#include "detforge/eval/matching.h"

#include <algorithm>

namespace detforge {
namespace {

constexpr std::size_t kNone = static_cast<std::size_t>(-1);

bool outside(double area, const AreaRange& range) {
  return area < range.low || area > range.high;
}

}  // namespace

CellMatcher::CellMatcher(std::span<const double> iou_thresholds) {
  // A threshold of 1 must still be reachable by a box compared with itself, as in pycocotools.
  for (const double threshold : iou_thresholds) {
    thresholds_.push_back(std::min(threshold, 1 - 1e-10));
  }
}

std::int64_t CellMatcher::match(const MatchCell& cell,
                                const AreaRange& range,
                                std::span<MatchFlags> flags) {
  std::fill(flags.begin(), flags.end(), MatchFlags{});
  order_objects(cell, range);
  const std::size_t object_count = order_.size();
  if (object_count > 0) {
    best_iou_.resize(flags.size());
    for (std::size_t d = 0; d < flags.size(); ++d) {
      const auto row = cell.iou.subspan(d * object_count, object_count);
      best_iou_[d] = *std::max_element(row.begin(), row.end());
    }
    for (std::size_t t = 0; t < thresholds_.size(); ++t) {
      match_threshold(cell, t, flags);
    }
  }
  for (std::size_t d = 0; d < flags.size(); ++d) {
    if (outside(cell.detection_areas[d], range)) {
      flags[d].ignored |= ~flags[d].matched;
    }
  }
  return static_cast<std::int64_t>(counted_);
}

void CellMatcher::order_objects(const MatchCell& cell, const AreaRange& range) {
  const auto ignored = [&](std::size_t g) {
    return cell.is_crowd[g] != 0 || outside(cell.object_areas[g], range);
  };
  order_.clear();
  for (std::size_t g = 0; g < cell.object_areas.size(); ++g) {
    if (!ignored(g)) {
      order_.push_back(static_cast<std::uint32_t>(g));
    }
  }
  counted_ = order_.size();
  for (std::size_t g = 0; g < cell.object_areas.size(); ++g) {
    if (ignored(g)) {
      order_.push_back(static_cast<std::uint32_t>(g));
    }
  }
}

void CellMatcher::match_threshold(const MatchCell& cell,
                                  std::size_t threshold_index,
                                  std::span<MatchFlags> flags) {
  const std::uint64_t bit = std::uint64_t{1} << threshold_index;
  taken_.assign(order_.size(), 0);
  for (std::size_t d = 0; d < flags.size(); ++d) {
    const std::size_t position = best_object(cell, d, thresholds_[threshold_index]);
    if (position == kNone) {
      continue;
    }
    taken_[position] = cell.is_crowd[order_[position]] == 0;
    flags[d].matched |= cell.hides_match[order_[position]] != 0 ? 0 : bit;
    flags[d].ignored |= position >= counted_ ? bit : 0;
  }
}

std::size_t CellMatcher::best_object(const MatchCell& cell,
                                     std::size_t detection,
                                     double threshold) const {
  if (best_iou_[detection] < threshold) {
    return kNone;
  }
  const double* row = cell.iou.data() + detection * order_.size();
  std::size_t best = kNone;
  for (std::size_t position = 0; position < order_.size(); ++position) {
    if (position == counted_ && best != kNone) {
      break;  // an object that counts goes before any ignored one
    }
    // At equal IoU the later object wins, as in pycocotools.
    if (taken_[position] == 0 && row[order_[position]] >= threshold) {
      threshold = row[order_[position]];
      best = position;
    }
  }
  return best;
}

}  // namespace detforge
