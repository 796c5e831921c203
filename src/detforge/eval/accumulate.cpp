#include "detforge/eval/accumulate.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace detforge {

void CategoryAccumulator::accumulate(const CategoryMatches& matches,
                                     std::size_t k,
                                     CocoEvalResult& result) {
  order_.resize(matches.scores.size());
  std::iota(order_.begin(), order_.end(), std::uint32_t{0});
  std::stable_sort(order_.begin(), order_.end(), [&](std::uint32_t a, std::uint32_t b) {
    return matches.scores[a] > matches.scores[b];
  });
  by_score_.resize(order_.size());
  for (std::size_t a = 0; a < result.options.area_ranges.size(); ++a) {
    if (!result.defined(k, a)) {
      continue;
    }
    fill_recalls(matches, k, a, result);
    const auto flags = matches.flags.subspan(a * order_.size(), order_.size());
    for (std::size_t i = 0; i < order_.size(); ++i) {
      by_score_[i] = flags[order_[i]];
    }
    for (std::size_t t = 0; t < result.options.iou_thresholds.size(); ++t) {
      fill_curve(matches, k, a, t, result);
    }
  }
}

/// Recall needs only the number of objects found by the best max_dets detections of each image.
void CategoryAccumulator::fill_recalls(const CategoryMatches& matches,
                                       std::size_t k,
                                       std::size_t a,
                                       CocoEvalResult& result) {
  const auto flags = matches.flags.subspan(a * matches.scores.size(), matches.scores.size());
  const auto judged = static_cast<double>(matches.judged[a]);
  for (std::size_t m = 0; m < result.options.max_dets.size(); ++m) {
    for (std::size_t t = 0; t < result.options.iou_thresholds.size(); ++t) {
      std::int64_t found = 0;
      for (std::size_t d = 0; d < flags.size(); ++d) {
        const bool kept = static_cast<std::int64_t>(matches.ranks[d]) < result.options.max_dets[m];
        found += kept && ((flags[d].matched & ~flags[d].ignored) >> t & 1) != 0 ? 1 : 0;
      }
      result.recall[result.recall_index(t, k, a, m)] = static_cast<double>(found) / judged;
    }
  }
}

void CategoryAccumulator::fill_curve(const CategoryMatches& matches,
                                     std::size_t k,
                                     std::size_t a,
                                     std::size_t t,
                                     CocoEvalResult& result) {
  const auto judged = static_cast<double>(matches.judged[a]);
  const std::size_t count = order_.size();
  recall_.resize(count);
  precision_.resize(count);
  double right = 0, wrong = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const MatchFlags& flag = by_score_[i];
    const bool matched = (flag.matched >> t & 1) != 0;
    if ((flag.ignored >> t & 1) == 0) {
      (matched ? right : wrong) += 1;
    }
    recall_[i] = right / judged;
    // pycocotools adds the spacing of doubles at 1 so that 0 / 0 is 0.
    precision_[i] = right / (wrong + right + std::numeric_limits<double>::epsilon());
  }
  for (std::size_t i = count; i > 1; --i) {
    precision_[i - 2] = std::max(precision_[i - 2], precision_[i - 1]);
  }
  // Both lists rise, so the first position that reaches each recall is found by walking on.
  std::size_t i = 0;
  for (std::size_t r = 0; r < result.options.recall_thresholds.size(); ++r) {
    while (i < count && recall_[i] < result.options.recall_thresholds[r]) {
      ++i;
    }
    if (i == count) {
      break;
    }
    const std::size_t index = result.precision_index(t, r, k, a);
    result.precision[index] = precision_[i];
    result.scores[index] = matches.scores[order_[i]];
  }
}

}  // namespace detforge
