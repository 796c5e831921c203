#include "detforge/models/matcher.h"

#include <algorithm>

#include <ATen/Parallel.h>
#include <torch/types.h>

#include "detforge/core/error.h"
#include "detforge/ops/iou.h"

namespace detforge {
namespace {

constexpr std::int64_t kGrain = 4096;

// Highest IoU of each column, and its row.
void best_of_columns(const Tensor& iou, float* best, std::int64_t* gt_index) {
  const std::int64_t rows = iou.size(0);
  const std::int64_t columns = iou.size(1);
  const float* data = iou.data_ptr<float>();
  at::parallel_for(0, columns, kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t g = 0; g < rows; ++g) {
      const float* row = data + g * columns;
      for (std::int64_t n = begin; n < end; ++n) {
        const bool better = g == 0 || row[n] > best[n];
        best[n] = better ? row[n] : best[n];
        gt_index[n] = better ? g : gt_index[n];
      }
    }
  });
}

// Raises highest[g] to the highest IoU of row g.
void raise_row_maxima(const Tensor& iou, std::vector<float>& highest) {
  const std::int64_t columns = iou.size(1);
  const float* data = iou.data_ptr<float>();
  at::parallel_for(0, iou.size(0), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t g = begin; g < end; ++g) {
      const float* row = data + g * columns;
      float& maximum = highest[static_cast<std::size_t>(g)];
      for (std::int64_t n = 0; n < columns; ++n) {
        maximum = row[n] > maximum ? row[n] : maximum;
      }
    }
  });
}

// Label 1 for every box that ties with the best of a ground truth.
void label_low_quality(const Tensor& iou,
                       const std::vector<float>& highest,
                       bool match_without_overlap,
                       std::int64_t* labels) {
  const std::int64_t columns = iou.size(1);
  const float* data = iou.data_ptr<float>();
  for (std::int64_t g = 0; g < iou.size(0); ++g) {
    const float maximum = highest[static_cast<std::size_t>(g)];
    const float* row = data + g * columns;
    const bool can_match = maximum > 0.0F || match_without_overlap;
    for (std::int64_t n = 0; can_match && n < columns; ++n) {
      if (row[n] == maximum) {
        labels[n] = 1;
      }
    }
  }
}

void label_by_thresholds(const MatcherOptions& options, const Tensor& best, std::int64_t* labels) {
  const float* iou = best.data_ptr<float>();
  std::vector<float> thresholds(options.iou_thresholds.begin(), options.iou_thresholds.end());
  at::parallel_for(0, best.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin; n < end; ++n) {
      const auto range =
          std::upper_bound(thresholds.begin(), thresholds.end(), iou[n]) - thresholds.begin();
      labels[n] = options.labels[static_cast<std::size_t>(range)];
    }
  });
}

}  // namespace

Matcher::Matcher(MatcherOptions options) : options_(std::move(options)) {
  DETFORGE_CHECK(
      options_.labels.size() == options_.iou_thresholds.size() + 1,
      std::to_string(options_.labels.size()) + " match labels for " +
          std::to_string(options_.iou_thresholds.size()) + " IoU thresholds",
      "give one label more than thresholds, e.g. thresholds [0.3, 0.7], labels [0, -1, 1]");
  DETFORGE_CHECK(std::is_sorted(options_.iou_thresholds.begin(), options_.iou_thresholds.end()) &&
                     std::all_of(options_.iou_thresholds.begin(), options_.iou_thresholds.end(),
                                 [](double t) { return t > 0.0; }),
                 "IoU thresholds are not positive and rising", "sort them, e.g. [0.3, 0.7]");
  for (const std::int64_t label : options_.labels) {
    DETFORGE_CHECK(label >= -1 && label <= 1,
                   "match label " + std::to_string(label) + " is unknown",
                   "use -1 (ignored), 0 (negative) or 1 (positive)");
  }
}

Matches Matcher::match(const Tensor& iou) const {
  const Tensor matrix = iou.detach().to(torch::kCPU, torch::kFloat).contiguous();
  const std::int64_t count = matrix.size(1);
  Matches matches{torch::zeros({count}, torch::kLong),
                  torch::full({count}, options_.labels.front(), torch::kLong)};
  if (matrix.size(0) > 0) {
    const Tensor best = torch::empty({count}, torch::kFloat);
    best_of_columns(matrix, best.data_ptr<float>(), matches.gt_index.data_ptr<std::int64_t>());
    label_by_thresholds(options_, best, matches.labels.data_ptr<std::int64_t>());
    if (options_.allow_low_quality) {
      std::vector<float> highest(static_cast<std::size_t>(matrix.size(0)), 0.0F);
      raise_row_maxima(matrix, highest);
      label_low_quality(matrix, highest, options_.match_without_overlap,
                        matches.labels.data_ptr<std::int64_t>());
    }
  }
  return {matches.gt_index.to(iou.device()), matches.labels.to(iou.device())};
}

Matches Matcher::match_boxes(const Tensor& gt_boxes, const Tensor& boxes) const {
  const BestIou best = best_iou(gt_boxes, boxes);
  const std::int64_t count = boxes.size(0);
  Matches matches{best.gt_index, torch::full({count}, options_.labels.front(), torch::kLong)};
  if (gt_boxes.size(0) > 0) {
    label_by_thresholds(options_, best.iou, matches.labels.data_ptr<std::int64_t>());
    if (options_.allow_low_quality) {
      const bool is_everyones =  // all IoUs with such a ground truth are its highest, 0
          options_.match_without_overlap && best.highest.eq(0.0).any().item<bool>();
      matches.labels.masked_fill_(is_everyones ? torch::ones_like(best.is_highest, torch::kBool)
                                               : best.is_highest.to(torch::kBool),
                                  1);
    }
  }
  return {matches.gt_index.to(boxes.device()), matches.labels.to(boxes.device())};
}

}  // namespace detforge
