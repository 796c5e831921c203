#pragma once

#include <filesystem>
#include <vector>

#include "detforge/config/config.h"
#include "detforge/data/loader.h"
#include "detforge/distributed/single_process.h"
#include "detforge/eval/category_map.h"
#include "detforge/eval/coco_eval.h"
#include "detforge/eval/inference.h"
#include "detforge/models/detector.h"
#include "detforge/structures/rle_list.h"
#include "detforge/train/evaluation_hook.h"

namespace detforge {

struct CocoEvaluationOptions {
  bool pycocotools_compat = false;  ///< see CocoEvalOptions
  bool original_size = false;       ///< no resize to INPUT.MIN_SIZE_TEST (the detector has its own)
  int threads = 0;                  ///< of the judging; 0 = one per processor
  std::int64_t pictures = 8;        ///< images drawn with their detections beside their objects
  Communicator* communicator =
      nullptr;  ///< whose ranks share the images; null: there are no others
};

/// Evaluates detectors on the config's test data. Loads and checks the annotations once; may be
/// used many times.
class CocoEvaluation {
 public:
  /// `class_names`: the detector's classes, matched with the data's categories by name; empty: the
  /// test data's own.
  CocoEvaluation(const Config& config,
                 std::vector<std::string> class_names,
                 const CocoEvaluationOptions& options = {});

  /// Detects in all images, judges boxes and, if detector and data have them, masks, prints the
  /// tables to stdout and writes into `folder`: results.json, metrics.json, per_class.csv (masks:
  /// per_class_segm.csv) and pictures/. The metric for best.pth is AP, of masks if they are judged.
  /// Several ranks have parts of the images, with rank 0's running statistics of norms; rank 0
  /// judges and writes, and the others, whose result is empty, wait for it.
  EvaluationResult run(Detector& detector, const std::filesystem::path& folder) const;

  /// Two images through the whole path, so that a run which cannot evaluate fails before its first
  /// step.
  void smoke(Detector& detector) const;

  const CocoDataset& dataset() const { return dataset_; }

 private:
  InferenceResult detect(Detector& detector, std::int64_t max_images) const;
  InferenceResult detect_own_part(Detector& detector) const;
  EvaluationResult judge(Detector& detector,
                         const InferenceResult& found,
                         const std::filesystem::path& folder) const;
  CocoEvalOptions eval_options() const;

  Config config_;
  CocoEvaluationOptions options_;
  SingleProcess alone_;
  Communicator& communicator_;
  CocoDataset dataset_;
  TransformPipeline transforms_;
  EvalInputs inputs_;
  RleList gt_masks_;  ///< one per object of inputs_; empty without MODEL.MASK_ON
  bool judges_masks_ = false;
  CategoryMap categories_;
};

}  // namespace detforge
