#include "detforge/eval/summary.h"

#include <cmath>
#include <string>
#include <utility>

#include <fmt/format.h>

namespace detforge {
namespace {

/// [begin, end) of the positions that an optional choice among `count` stands for.
struct Range {
  std::size_t begin, end;
  Range(std::optional<std::size_t> choice, std::size_t count)
      : begin(choice.value_or(0)), end(choice ? *choice + 1 : count) {}
};

std::optional<std::size_t> threshold_position(const CocoEvalResult& result, double threshold) {
  const auto& thresholds = result.options.iou_thresholds;
  for (std::size_t t = 0; t < thresholds.size(); ++t) {
    if (std::abs(thresholds[t] - threshold) < 1e-9) {
      return t;
    }
  }
  return std::nullopt;
}

std::optional<double> precision_at(const CocoEvalResult& result,
                                   double threshold,
                                   std::optional<std::size_t> k) {
  const auto t = threshold_position(result, threshold);
  return t ? mean_precision(result, t, k, 0) : std::nullopt;
}

/// APs, APm, APl for COCO's names, AP_tiny for a user's own.
std::string area_suffix(const std::string& name) {
  return name == "small" || name == "medium" || name == "large" ? name.substr(0, 1) : "_" + name;
}

}  // namespace

std::optional<double> mean_precision(const CocoEvalResult& result,
                                     std::optional<std::size_t> t,
                                     std::optional<std::size_t> k,
                                     std::size_t a) {
  const Range thresholds(t, result.options.iou_thresholds.size()),
      categories(k, result.categories.size());
  double sum = 0;
  std::size_t count = 0;
  for (std::size_t category = categories.begin; category < categories.end; ++category) {
    if (!result.defined(category, a)) {
      continue;
    }
    for (std::size_t threshold = thresholds.begin; threshold < thresholds.end; ++threshold) {
      for (std::size_t r = 0; r < result.options.recall_thresholds.size(); ++r, ++count) {
        sum += result.precision[result.precision_index(threshold, r, category, a)];
      }
    }
  }
  return count == 0 ? std::nullopt : std::optional(sum / static_cast<double>(count));
}

std::optional<double> mean_recall(const CocoEvalResult& result,
                                  std::optional<std::size_t> k,
                                  std::size_t a,
                                  std::size_t m) {
  const Range categories(k, result.categories.size());
  double sum = 0;
  std::size_t count = 0;
  for (std::size_t category = categories.begin; category < categories.end; ++category) {
    if (!result.defined(category, a)) {
      continue;
    }
    for (std::size_t t = 0; t < result.options.iou_thresholds.size(); ++t, ++count) {
      sum += result.recall[result.recall_index(t, category, a, m)];
    }
  }
  return count == 0 ? std::nullopt : std::optional(sum / static_cast<double>(count));
}

void summarize(CocoEvalResult& result) {
  const auto& areas = result.options.area_ranges;
  const auto& max_dets = result.options.max_dets;
  const std::size_t last = max_dets.size() - 1;
  const auto add = [&](std::string key, bool is_recall, std::optional<double> iou, std::size_t a,
                       std::size_t m, std::optional<double> value) {
    result.summary.push_back({std::move(key), is_recall, iou, areas[a].name, max_dets[m], value});
  };
  add("AP", false, std::nullopt, 0, last, mean_precision(result, std::nullopt, std::nullopt, 0));
  add("AP50", false, 0.5, 0, last, precision_at(result, 0.5, std::nullopt));
  add("AP75", false, 0.75, 0, last, precision_at(result, 0.75, std::nullopt));
  for (std::size_t a = 1; a < areas.size(); ++a) {
    add("AP" + area_suffix(areas[a].name), false, std::nullopt, a, last,
        mean_precision(result, std::nullopt, std::nullopt, a));
  }
  for (std::size_t m = 0; m < max_dets.size(); ++m) {
    add(fmt::format("AR{}", max_dets[m]), true, std::nullopt, 0, m,
        mean_recall(result, std::nullopt, 0, m));
  }
  for (std::size_t a = 1; a < areas.size(); ++a) {
    add("AR" + area_suffix(areas[a].name), true, std::nullopt, a, last,
        mean_recall(result, std::nullopt, a, last));
  }
  for (std::size_t k = 0; k < result.per_category.size(); ++k) {
    CategoryMetrics& metrics = result.per_category[k];
    metrics.ap = mean_precision(result, std::nullopt, k, 0);
    metrics.ap50 = precision_at(result, 0.5, k);
    metrics.ap75 = precision_at(result, 0.75, k);
    metrics.ar = mean_recall(result, k, 0, last);
    for (std::size_t a = 1; a < areas.size(); ++a) {
      metrics.ap_by_area.push_back(mean_precision(result, std::nullopt, k, a));
    }
  }
}

std::optional<double> CocoEvalResult::value(const std::string& key) const {
  for (const SummaryMetric& metric : summary) {
    if (metric.key == key) {
      return metric.value;
    }
  }
  return std::nullopt;
}

}  // namespace detforge
