#include "detforge/eval/inference.h"

#include <algorithm>
#include <string>

#include <fmt/format.h>
#include <torch/types.h>

#include "detforge/core/error.h"
#include "detforge/core/log.h"
#include "detforge/core/timer.h"
#include "detforge/eval/postprocess.h"
#include "detforge/ops/paste_masks.h"

namespace detforge {
namespace {

/// Eval mode for the lifetime of this object.
class EvalMode {
 public:
  explicit EvalMode(Detector& detector)
      : detector_(detector), was_training_(detector.is_training()) {
    detector.eval();
  }
  ~EvalMode() { detector_.train(was_training_); }
  EvalMode(const EvalMode&) = delete;
  EvalMode& operator=(const EvalMode&) = delete;

 private:
  Detector& detector_;
  bool was_training_;
};

class ProgressLog {
 public:
  explicit ProgressLog(const InferenceOptions& options) : options_(options) {}

  void report(std::int64_t done) {
    if (since_line_.elapsed_s() < options_.log_every_s) {
      return;
    }
    since_line_.restart();
    const double rate = static_cast<double>(done) / start_.elapsed_s();
    const std::int64_t total = options_.max_images > 0 && options_.total_images > 0
                                   ? std::min(options_.max_images, options_.total_images)
                                   : std::max(options_.max_images, options_.total_images);
    if (total > 0) {
      const double left_s = static_cast<double>(std::max<std::int64_t>(total - done, 0)) / rate;
      log::info("inference: {}/{} images, {:.2f} images/s, eta {:.0f} s", done, total, rate,
                left_s);
    } else {
      log::info("inference: {} images, {:.2f} images/s", done, rate);
    }
  }

  double elapsed_s() const { return start_.elapsed_s(); }

 private:
  const InferenceOptions& options_;
  Timer start_, since_line_;
};

/// Appends the boxes whose class has a category id; returns their positions.
std::vector<std::int64_t> append_boxes(const Detections& detections,
                                       std::int64_t image_id,
                                       std::span<const std::optional<std::int64_t>> id_of_label,
                                       InferenceResult& result) {
  // f32 subtraction as in Detectron2's BoxMode.convert, then exact in double.
  const Tensor boxes = detections.boxes.to(at::kCPU, at::kFloat).contiguous();
  const Tensor scores = detections.scores.to(at::kCPU, at::kFloat).contiguous();
  const Tensor labels = detections.labels.to(at::kCPU, at::kLong).contiguous();
  const float* box = boxes.data_ptr<float>();
  std::vector<std::int64_t> kept;
  for (std::int64_t i = 0; i < boxes.size(0); ++i, box += 4) {
    const std::int64_t label = labels.data_ptr<std::int64_t>()[i];
    DETFORGE_CHECK(label >= 0 && label < std::ssize(id_of_label),
                   fmt::format("the model gave class {}, but {} classes are known", label,
                               std::ssize(id_of_label)),
                   "evaluate with the class names that the checkpoint was trained with");
    const auto& category_id = id_of_label[static_cast<std::size_t>(label)];
    if (!category_id) {
      ++result.dropped;
      continue;
    }
    kept.push_back(i);
    result.detections.push_back({.image_id = image_id,
                                 .category_id = *category_id,
                                 .x = box[0],
                                 .y = box[1],
                                 .width = box[2] - box[0],
                                 .height = box[3] - box[1],
                                 .score = scores.data_ptr<float>()[i]});
  }
  return kept;
}

void append_masks(const Detections& detections,
                  const std::vector<std::int64_t>& kept,
                  ImageSize original_size,
                  InferenceResult& result) {
  const Timer timer;
  const Tensor rows = torch::tensor(kept, at::kLong);
  for (const Rle& mask : paste_masks(detections.masks.index_select(0, rows),
                                     detections.boxes.index_select(0, rows), original_size)) {
    result.masks.push_back(mask);
  }
  result.paste_s += timer.elapsed_s();
}

void append(const Detections& detections,
            std::int64_t image_id,
            ImageSize original_size,
            std::span<const std::optional<std::int64_t>> id_of_label,
            InferenceResult& result) {
  const std::vector<std::int64_t> kept = append_boxes(detections, image_id, id_of_label, result);
  if (detections.masks.defined() && !kept.empty()) {
    append_masks(detections, kept, original_size, result);
  }
  DETFORGE_CHECK(
      result.masks.empty() || result.masks.size() == result.detections.size(),
      fmt::format("{} detections with {} masks up to image {}", result.detections.size(),
                  result.masks.size(), image_id),
      "a model gives masks for every detection or for none; this is an error in DetForge");
}

}  // namespace

InferenceResult run_inference(Detector& detector,
                              const BatchProducer& next_batch,
                              std::span<const std::optional<std::int64_t>> id_of_label,
                              const InferenceOptions& options) {
  const EvalMode eval_mode(detector);
  const at::NoGradGuard no_grad;
  InferenceResult result;
  ProgressLog progress(options);
  const auto limit_reached = [&] {
    return options.max_images > 0 && std::ssize(result.image_ids) >= options.max_images;
  };
  while (!limit_reached()) {
    const std::optional<Batch> batch = next_batch();
    if (!batch) {
      break;
    }
    const ImageBatch& images = batch->images;
    const Timer timer;
    const std::vector<Detections> found = detector.predict(images);
    result.model_s += timer.elapsed_s();
    for (std::size_t i = 0; i < found.size() && !limit_reached(); ++i) {
      append(postprocess(found[i], images.content(i), images.original_sizes[i]),
             images.image_ids[i], images.original_sizes[i], id_of_label, result);
      result.image_ids.push_back(images.image_ids[i]);
    }
    const auto done = std::ssize(result.image_ids);
    progress.report(done);
    if (options.progress) {
      options.progress(done);
    }
  }
  result.total_s = progress.elapsed_s();
  return result;
}

}  // namespace detforge
