#include "detforge/cli/evaluation.h"

#include <algorithm>

#include <fmt/format.h>

#include "detforge/cli/build.h"
#include "detforge/core/error.h"
#include "detforge/core/files.h"
#include "detforge/core/log.h"
#include "detforge/eval/coco_ground_truth.h"
#include "detforge/eval/coco_report.h"
#include "detforge/eval/results_json.h"
#include "detforge/train/signals.h"

namespace detforge {
namespace {

/// With a class list, other categories of the file are not judged.
void keep_categories(EvalInputs& inputs, const std::vector<std::string>& classes) {
  if (classes.empty()) {
    return;
  }
  std::erase_if(inputs.categories, [&](const EvalCategory& category) {
    return std::find(classes.begin(), classes.end(), category.name) == classes.end();
  });
  std::erase_if(inputs.ground_truth, [&](const EvalGroundTruth& object) {
    return std::none_of(
        inputs.categories.begin(), inputs.categories.end(),
        [&](const EvalCategory& category) { return category.id == object.category_id; });
  });
}

void report_unmatched(const CategoryMap& map) {
  if (!map.only_in_model.empty()) {
    log::warn(
        "classes of the model that the test data does not have (their detections are left out): {}",
        fmt::join(map.only_in_model, ", "));
  }
  if (!map.only_in_data.empty()) {
    log::warn(
        "categories of the test data that the model does not know (their objects count as missed): "
        "{}",
        fmt::join(map.only_in_data, ", "));
  }
}

/// An evaluation can take an hour, a cluster's grace period is seconds.
void give_up_on_signal() {
  if (const char* signal = StopSignals::received()) {
    throw Error(fmt::format("the evaluation was given up because of {}", signal),
                "evaluate later with detforge eval");
  }
}

}  // namespace

CocoEvaluation::CocoEvaluation(const Config& config,
                               std::vector<std::string> class_names,
                               const CocoEvaluationOptions& options)
    : config_(config),
      options_(options),
      dataset_(test_dataset_options(config)),
      transforms_(test_transform_options(config.input)),
      inputs_(eval_inputs(dataset_.store())),
      categories_() {
  keep_categories(inputs_, config.datasets.classes);
  if (class_names.empty()) {
    class_names = dataset_.class_names();
  }
  categories_ = match_categories(class_names, inputs_.categories);
  report_unmatched(categories_);
}

CocoEvalOptions CocoEvaluation::eval_options() const {
  CocoEvalOptions options;
  const std::int64_t most = config_.test.max_dets;
  options.max_dets.clear();
  for (const std::int64_t fewer : {std::int64_t{1}, std::int64_t{10}}) {
    if (fewer < most) {
      options.max_dets.push_back(fewer);
    }
  }
  options.max_dets.push_back(most);
  options.pycocotools_compat = options_.pycocotools_compat;
  options.threads = options_.threads;
  return options;
}

InferenceResult CocoEvaluation::detect(Detector& detector, std::int64_t max_images) const {
  EvalLoader loader(dataset_, transforms_, test_loader_options(config_));
  InferenceResult result = run_inference(
      detector, [&] { return loader.next(); }, categories_.id_of_label,
      {.total_images = dataset_.size(), .max_images = max_images, .progress = [](std::int64_t) {
         give_up_on_signal();
       }});
  const auto images = static_cast<double>(result.image_ids.size());
  log::info("{} detections in {:.0f} images, {:.2f} images/s ({:.3f} s/image in the model)",
            result.detections.size(), images, images / result.total_s, result.model_s / images);
  if (dataset_.bad_images() > 0) {
    log::warn("{} images could not be decoded and were skipped: their objects count as missed",
              dataset_.bad_images());
  }
  return result;
}

EvaluationResult CocoEvaluation::run(Detector& detector,
                                     const std::filesystem::path& folder) const {
  const std::vector<EvalDetection> detections = detect(detector, 0).detections;
  const CocoEvalResult result = evaluate_coco(inputs_, detections, eval_options());
  write_results_json(folder / "results.json", detections);
  files::write_atomic(folder / "metrics.json", metrics_json(result).dump(2) + "\n");
  files::write_atomic(folder / "per_class.csv", category_csv(result));
  fmt::print("{}{}", summary_table(result), category_table(result));
  for (const std::string& note : result.notes) {
    log::warn("{}", note);
  }
  EvaluationResult out{.metric = result.value("AP"), .values = {}};
  for (const SummaryMetric& metric : result.summary) {
    if (metric.value) {
      out.values.emplace_back("bbox/" + metric.key, *metric.value);
    }
  }
  return out;
}

void CocoEvaluation::smoke(Detector& detector) const {
  constexpr std::int64_t kImages = 2;
  const InferenceResult result = detect(detector, kImages);
  evaluate_coco(eval_inputs(dataset_.store(), result.image_ids), result.detections, eval_options());
  log::info("smoke evaluation of {} images: works", result.image_ids.size());
}

}  // namespace detforge
