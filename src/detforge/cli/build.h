#pragma once

#include <memory>

#include "detforge/config/config.h"
#include "detforge/data/loader.h"
#include "detforge/distributed/gradient_reducer.h"
#include "detforge/models/detector.h"
#include "detforge/models/rcnn/faster_rcnn.h"
#include "detforge/train/checkpoint.h"
#include "detforge/train/epochs.h"
#include "detforge/train/lr_schedule.h"
#include "detforge/train/optimizer.h"
#include "detforge/train/precision.h"

/// From a config to the objects of a run: the only place where config keys become Options.
namespace detforge {

/// build_detector.cpp
FasterRcnnOptions faster_rcnn_options(const Config& config);
/// How many classes the model tells apart, whatever key or file says so.
std::int64_t class_count(const Config& config);
/// The model with weights from SEED; MODEL.WEIGHTS is not loaded here.
std::shared_ptr<Detector> build_detector(const Config& config);
/// The same detector with TEST.AUG: give it images as they are in the file.
std::shared_ptr<Detector> with_test_time_augmentation(const Config& config,
                                                      std::shared_ptr<Detector> detector);

/// build_data.cpp
CocoDatasetOptions train_dataset_options(const Config& config);
CocoDatasetOptions test_dataset_options(const Config& config);
TransformPipeline::Options train_transform_options(const Config& config);
TransformPipeline::Options test_transform_options(const Config& config);
/// The largest upright landscape image that test_transform_options() make.
ImageSize usual_image_size(const Config& config);
/// Images as they are in the file, for a detector that resizes by itself.
TransformPipeline::Options no_transform_options();
CollateOptions collate_options(const Config& config);
LoaderOptions train_loader_options(const Config& config);
LoaderOptions test_loader_options(const Config& config);

/// build_training.cpp
/// Batch, rate and lengths of a recipe for SOLVER.REFERENCE_WORLD_SIZE ranks, for those that there
/// are (linear rule, as Detectron2's auto_scale_workers); the key is 0 then. Logs what it changed.
Config with_actual_world_size(Config config, std::int64_t world_size);
/// Of the training data, repeats (REPEAT_THRESHOLD) counted.
EpochLength epoch_length(const Config& config, const CocoDataset& dataset);
/// The config with lengths in epochs (MAX_EPOCHS, STEPS_EPOCHS, ...) turned into steps and BASE_LR
/// scaled from REFERENCE_IMS_PER_BATCH; these keys are 0 then. Logs both.
Config with_resolved_schedule(Config config, const EpochLength& epoch);
LrSchedule build_schedule(const SolverConfig& solver);
SgdOptions sgd_options(const SolverConfig& solver);
/// Of AMP, OPT_LEVEL and their like, or of SOLVER.AMP.ENABLED.
PrecisionOptions precision_options(const Config& config);
/// Null with one rank, which has nobody to sum its gradients with.
std::unique_ptr<GradientReducer> build_reducer(const Config& config,
                                               const Sgd& optimizer,
                                               Communicator& communicator);
/// What a checkpoint says about this run: classes, preprocessing, config, version.
CheckpointContext checkpoint_context(const Config& config, const CocoDataset& dataset);
/// Throws Error (usage) if the model's number of classes is not the dataset's.
void check_class_count(const Config& config, const CocoDataset& dataset);
/// With MODEL.MASK_ON: throws Error (usage) if no object of the dataset has a mask, and warns if
/// many have none.
void check_masks(const Config& config, const CocoDataset& dataset);

}  // namespace detforge
