#include "detforge/eval/coco_report.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace detforge {
namespace {

std::string text_of(const std::optional<double>& value) {
  return value ? fmt::format("{:.3f}", *value) : "n/a";
}

nlohmann::ordered_json json_of(const std::optional<double>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}

std::string iou_text(const CocoEvalResult& result, const std::optional<double>& threshold) {
  const auto& thresholds = result.options.iou_thresholds;
  return threshold ? fmt::format("{:.2f}", *threshold)
                   : fmt::format("{:.2f}:{:.2f}", thresholds.front(), thresholds.back());
}

/// A category's columns in order, under the names of the summary's lines.
std::vector<std::pair<std::string, std::optional<double>>> columns(const CocoEvalResult& result,
                                                                   const CategoryMetrics& metrics) {
  std::vector<std::optional<double>> values = {metrics.ap, metrics.ap50, metrics.ap75};
  values.insert(values.end(), metrics.ap_by_area.begin(), metrics.ap_by_area.end());
  std::vector<std::pair<std::string, std::optional<double>>> named;
  for (std::size_t i = 0; i < values.size(); ++i) {
    named.emplace_back(result.summary[i].key, values[i]);
  }
  named.emplace_back(fmt::format("AR{}", result.options.max_dets.back()), metrics.ar);
  return named;
}

std::string display_name(const EvalCategory& category) {
  return category.name.empty() ? fmt::format("id {}", category.id) : category.name;
}

std::string csv_quoted(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) {
    return text;
  }
  std::string quoted = "\"";
  for (const char c : text) {
    quoted += c == '"' ? "\"\"" : std::string(1, c);
  }
  return quoted + "\"";
}

}  // namespace

std::string summary_table(const CocoEvalResult& result) {
  std::string table;
  for (const SummaryMetric& metric : result.summary) {
    table += fmt::format(" {:<18} {} @[ IoU={:<9} | area={:>6} | maxDets={:>3} ] = {}\n",
                         metric.is_recall ? "Average Recall" : "Average Precision",
                         metric.is_recall ? "(AR)" : "(AP)", iou_text(result, metric.iou_threshold),
                         metric.area, metric.max_dets, text_of(metric.value));
  }
  return table;
}

std::string category_table(const CocoEvalResult& result) {
  if (result.per_category.empty()) {
    return {};
  }
  std::size_t name_width = 8;
  for (const CategoryMetrics& metrics : result.per_category) {
    name_width = std::max(name_width, display_name(metrics.category).size());
  }
  std::string table = fmt::format("{:<{}}", "category", name_width);
  for (const auto& [key, value] : columns(result, result.per_category.front())) {
    table += fmt::format(" {:>7}", key);
  }
  table += fmt::format(" {:>8} {:>10}\n", "objects", "detections");
  for (const CategoryMetrics& metrics : result.per_category) {
    table += fmt::format("{:<{}}", display_name(metrics.category), name_width);
    for (const auto& [key, value] : columns(result, metrics)) {
      table += fmt::format(" {:>7}", text_of(value));
    }
    table += fmt::format(" {:>8} {:>10}\n", metrics.ground_truth_count, metrics.detection_count);
  }
  return table;
}

std::string category_csv(const CocoEvalResult& result) {
  std::string csv = "category_id,category";
  if (!result.per_category.empty()) {
    for (const auto& [key, value] : columns(result, result.per_category.front())) {
      csv += "," + key;
    }
  }
  csv += ",objects,detections\n";
  for (const CategoryMetrics& metrics : result.per_category) {
    csv += fmt::format("{},{}", metrics.category.id, csv_quoted(metrics.category.name));
    for (const auto& [key, value] : columns(result, metrics)) {
      csv += value ? fmt::format(",{}", *value) : ",";
    }
    csv += fmt::format(",{},{}\n", metrics.ground_truth_count, metrics.detection_count);
  }
  return csv;
}

nlohmann::ordered_json metrics_json(const CocoEvalResult& result) {
  nlohmann::ordered_json json;
  for (const SummaryMetric& metric : result.summary) {
    json[metric.key] = json_of(metric.value);
  }
  json["images"] = result.image_count;
  json["objects"] = result.ground_truth_count;
  json["detections"] = result.detection_count;
  json["notes"] = result.notes;
  json["per_category"] = nlohmann::ordered_json::array();
  for (const CategoryMetrics& metrics : result.per_category) {
    nlohmann::ordered_json row = {{"id", metrics.category.id}, {"name", metrics.category.name}};
    for (const auto& [key, value] : columns(result, metrics)) {
      row[key] = json_of(value);
    }
    row["objects"] = metrics.ground_truth_count;
    row["detections"] = metrics.detection_count;
    json["per_category"].push_back(row);
  }
  return json;
}

nlohmann::ordered_json metrics_json(const CocoEvalResult& boxes, const CocoEvalResult& masks) {
  return {{"bbox", metrics_json(boxes)}, {"segm", metrics_json(masks)}};
}

std::optional<std::string> disagreement_note(const CocoEvalResult& boxes,
                                             const CocoEvalResult& masks) {
  constexpr double kNothing = 0.01, kSomething = 0.1;
  const double box_ap50 = boxes.value("AP50").value_or(0);
  const double mask_ap50 = masks.value("AP50").value_or(0);
  if (std::min(box_ap50, mask_ap50) >= kNothing || std::max(box_ap50, mask_ap50) < kSomething) {
    return std::nullopt;
  }
  return fmt::format(
      "AP50 is {:.3f} for boxes and {:.3f} for masks: look at the pictures; do the annotations' "
      "boxes (x, y, width, height) and masks belong together?",
      box_ap50, mask_ap50);
}

}  // namespace detforge
