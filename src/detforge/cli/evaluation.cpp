#include "detforge/cli/evaluation.h"

#include <algorithm>

#include <fmt/format.h>
#include <torch/types.h>

#include "detforge/cli/build.h"
#include "detforge/cli/pictures.h"
#include "detforge/core/caching_allocator.h"
#include "detforge/core/error.h"
#include "detforge/core/files.h"
#include "detforge/core/log.h"
#include "detforge/eval/coco_ground_truth.h"
#include "detforge/eval/coco_report.h"
#include "detforge/eval/gather_results.h"
#include "detforge/eval/mask_eval.h"
#include "detforge/eval/results_json.h"
#include "detforge/structures/rle.h"
#include "detforge/train/same_weights.h"
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

/// False for test data that has boxes only: then masks cannot be judged.
bool any_mask(const RleList& masks) {
  for (std::size_t i = 0; i < masks.size(); ++i) {
    if (rle_area(masks[i].counts) > 0) {
      return true;
    }
  }
  return false;
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

/// Prints and writes the tables of one kind ("bbox" or "segm") and adds its numbers to `out`.
void report(const std::string& kind,
            const CocoEvalResult& result,
            const std::filesystem::path& csv,
            EvaluationResult& out) {
  files::write_atomic(csv, category_csv(result));
  fmt::print("{}:\n{}{}", kind, summary_table(result), category_table(result));
  for (const std::string& note : result.notes) {
    log::warn("{}: {}", kind, note);
  }
  for (const SummaryMetric& metric : result.summary) {
    if (metric.value) {
      out.values.emplace_back(kind + "/" + metric.key, *metric.value);
    }
  }
}

/// The end of a rank's images, early if a signal came: an evaluation can take an hour, a cluster's
/// grace period is seconds.
std::optional<Batch> next_unless_stopped(EvalLoader& loader) {
  return StopSignals::received() != nullptr ? std::nullopt : loader.next();
}

/// Why all ranks give the evaluation up, if one of them was told to stop. Called by all.
std::optional<Error> stop_of_any(Communicator& communicator) {
  const char* signal = StopSignals::received();
  Tensor told = torch::full({1}, signal != nullptr ? 1 : 0, torch::kLong);
  communicator.all_reduce_sum_(told);
  if (told.item<std::int64_t>() == 0) {
    return std::nullopt;
  }
  return Error(fmt::format("the evaluation was given up because of {}",
                           signal != nullptr ? signal : "a signal to another rank"),
               "evaluate later with detforge eval");
}

}  // namespace

CocoEvaluation::CocoEvaluation(const Config& config,
                               std::vector<std::string> class_names,
                               const CocoEvaluationOptions& options)
    : config_(config),
      options_(options),
      communicator_(options.communicator != nullptr ? *options.communicator : alone_),
      dataset_(test_dataset_options(config)),
      transforms_(options.original_size ? no_transform_options() : test_transform_options(config)),
      inputs_(eval_inputs(dataset_.store())),
      categories_() {
  keep_categories(inputs_, config.datasets.classes);
  if (class_names.empty()) {
    check_class_count(config, dataset_);  // without names, only their number can be checked
    class_names = dataset_.class_names();
  }
  if (config.model.mask_on) {
    gt_masks_ = ground_truth_masks(dataset_.store(), inputs_, options.threads);
    judges_masks_ = any_mask(gt_masks_);
    if (!judges_masks_) {
      log::warn("no object of the test data has a mask: only boxes are judged");
    }
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
  options.area_of_boxes = options_.pycocotools_compat;
  options.threads = options_.threads;
  return options;
}

InferenceResult CocoEvaluation::detect(Detector& detector, std::int64_t max_images) const {
  const std::int64_t released = release_cached_memory();  // inference needs a fraction of it
  log::debug("{} MiB of free tensor memory given back before the evaluation", released >> 20);
  LoaderOptions options = test_loader_options(config_);
  if (max_images == 0) {
    options.rank = communicator_.rank();
    options.world_size = communicator_.world_size();
  }
  EvalLoader loader(dataset_, transforms_, options);
  InferenceResult result = run_inference(
      detector, [&] { return next_unless_stopped(loader); }, categories_.id_of_label,
      {.total_images = loader.size(), .max_images = max_images, .progress = [&](std::int64_t) {
         communicator_.progress();
       }});
  release_cached_memory();  // for the judging
  const auto images = static_cast<double>(result.image_ids.size());
  if (!result.image_ids.empty()) {
    log::info("{} detections in {:.0f} images, {:.2f} images/s ({:.3f} s/image in the model)",
              result.detections.size(), images, images / result.total_s, result.model_s / images);
  }
  if (dataset_.bad_images() > 0) {
    log::warn("{} images could not be decoded and were skipped: their objects count as missed",
              dataset_.bad_images());
  }
  return result;
}

/// What this rank finds. The others wait for it: if it cannot, they must know.
InferenceResult CocoEvaluation::detect_own_part(Detector& detector) const {
  try {
    share_buffers(communicator_, detector);
    communicator_.enter("evaluation", -1);
    return detect(detector, 0);
  } catch (const CommunicationError&) {
    throw;
  } catch (const std::exception& error) {
    if (communicator_.world_size() == 1) {
      throw;
    }
    communicator_.give_up(error.what());
    throw CommunicationError(fmt::format("the evaluation failed on this rank: {}", error.what()),
                             "continue with --resume once its cause is gone");
  }
}

EvaluationResult CocoEvaluation::run(Detector& detector,
                                     const std::filesystem::path& folder) const {
  InferenceResult own = detect_own_part(detector);
  communicator_.barrier();
  if (const auto stop = stop_of_any(communicator_)) {
    throw *stop;
  }
  const InferenceResult found = gather_results(communicator_, std::move(own));
  EvaluationResult result;
  std::exception_ptr failure;
  if (communicator_.rank() == 0) {
    communicator_.serial_work("judging the evaluation");
    try {
      result = judge(detector, found, folder);
    } catch (...) {
      failure = std::current_exception();  // the others must not wait in vain
    }
  }
  communicator_.barrier();
  if (failure) {
    std::rethrow_exception(failure);
  }
  return result;
}

EvaluationResult CocoEvaluation::judge(Detector& detector,
                                       const InferenceResult& found,
                                       const std::filesystem::path& folder) const {
  const CocoEvalResult boxes = evaluate_coco(inputs_, found.detections, eval_options());
  write_results_json(folder / "results.json", found.detections, found.masks);
  EvaluationResult out{.metric = boxes.value("AP"), .values = {}};
  report("bbox", boxes, folder / "per_class.csv", out);
  if (!detector.has_masks() || !judges_masks_) {
    files::write_atomic(folder / "metrics.json", metrics_json(boxes).dump(2) + "\n");
  } else {
    const CocoEvalResult masks =
        evaluate_coco_masks(inputs_, gt_masks_, found.detections, found.masks, eval_options());
    report("segm", masks, folder / "per_class_segm.csv", out);
    files::write_atomic(folder / "metrics.json", metrics_json(boxes, masks).dump(2) + "\n");
    out.metric = masks.value("AP");
    if (const auto note = disagreement_note(boxes, masks)) {
      log::warn("{}", *note);
    }
  }
  try {
    write_evaluation_pictures(dataset_, found,
                              {.folder = folder / "pictures", .count = options_.pictures});
  } catch (const Error& error) {
    log::warn("the pictures of this evaluation could not be written: {}", error.what());
  }
  return out;
}

void CocoEvaluation::smoke(Detector& detector) const {
  constexpr std::int64_t kImages = 2;
  const InferenceResult result = detect(detector, kImages);
  const EvalInputs inputs = eval_inputs(dataset_.store(), result.image_ids);
  evaluate_coco(inputs, result.detections, eval_options());
  if (detector.has_masks() && judges_masks_) {
    evaluate_coco_masks(inputs, ground_truth_masks(dataset_.store(), inputs, options_.threads),
                        result.detections, result.masks, eval_options());
  }
  log::info("smoke evaluation of {} images: works", result.image_ids.size());
}

}  // namespace detforge
