#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "detforge/data/batch_pipeline.h"
#include "detforge/data/batch_source.h"
#include "detforge/data/collate.h"
#include "detforge/data/dataset.h"
#include "detforge/data/sampler.h"
#include "detforge/data/transform_pipeline.h"

namespace detforge {

struct LoaderOptions {
  std::int64_t batch_size = 16;  ///< images per step over all ranks: SOLVER.IMS_PER_BATCH
  int threads = 4;               ///< DATALOADER.NUM_WORKERS; 0 loads inside next()
  int prefetch = 4;              ///< batches ready or in the making: bounds the memory
  std::uint64_t seed = 0;        ///< the same on all ranks
  std::int64_t rank = 0, world_size = 1;
  bool aspect_ratio_grouping = true;  ///< DATALOADER.ASPECT_RATIO_GROUPING
  double repeat_threshold =
      0;  ///< DATALOADER.REPEAT_THRESHOLD; above 0: RepeatFactorTrainingSampler
  CollateOptions collate = {};
};

/// The training batches of one rank, its part of each step's (BatchSampler). They are a function of
/// the data set, the transforms, the options but for threads and prefetch, and the place in the
/// stream: equal bit for bit for any number of threads and after restore(). The place is the same
/// on all ranks and may be restored by another number of them. Random choices are keyed by (seed,
/// epoch, position in the epoch), those of a whole batch (multi-scale) by (seed, number of the
/// batch). restore() throws Error for the state of other settings or of a data set with other image
/// ids or file names; the folder of the images may be another one. Borrows data set and transforms,
/// which must outlive it. One thread may call it. After an exception (with image path and id)
/// next() goes on with the batch after the one that failed.
///   TrainLoader loader(dataset, transforms, {.batch_size = 2, .seed = 1});
///   Batch batch = loader.next();
///   std::string place = loader.state();  // with the checkpoint
class TrainLoader final : public BatchSource {
 public:
  TrainLoader(const CocoDataset& dataset,
              const TransformPipeline& transforms,
              LoaderOptions options);
  Batch next() override;
  std::string state() const override;
  void restore(const std::string& state) override;
  /// Passes over the data set that the batches handed out so far have begun, counted from 0.
  std::int64_t epoch() const { return state_.epoch; }
  /// How long the last next() took: the wait for data.
  double wait_s() const { return wait_s_; }

 private:
  void start();
  Sample load(const Draw& draw) const;

  const CocoDataset& dataset_;
  const TransformPipeline& transforms_;
  LoaderOptions options_;
  BatchSampler sampler_;       ///< ahead of state_ by the prefetched batches
  BatchSampler::State state_;  ///< after the batch handed out last
  double wait_s_ = 0;
  std::unique_ptr<BatchPipeline> pipeline_;  ///< last, so that its threads end first
};

/// The images of one rank for evaluation, once each, in the order of the data set
/// (inference_shard). Images that cannot be decoded are left out if the data set's policy is to
/// skip them, else next() throws. The objects come without masks, and masks that do not fit their
/// picture stop nothing: an evaluation reads its ground truth from the data set's store.
class EvalLoader {
 public:
  /// Uses batch_size (here of this rank), threads, prefetch, rank, world_size and collate of the
  /// options. Transforms
  /// are given random numbers of a fixed seed; they should need none.
  EvalLoader(const CocoDataset& dataset,
             const TransformPipeline& transforms,
             LoaderOptions options);
  /// The next batch, nothing after the last.
  std::optional<Batch> next();
  /// Images of this rank.
  std::int64_t size() const { return range_.end - range_.begin; }

 private:
  std::optional<BatchPipeline::Job> plan();

  const CocoDataset& dataset_;
  const TransformPipeline& transforms_;
  LoaderOptions options_;
  IndexRange range_;
  std::int64_t planned_ = 0;  ///< images
  std::unique_ptr<BatchPipeline> pipeline_;
};

}  // namespace detforge
