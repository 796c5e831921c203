#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "detforge/train/checkpoint_file.h"
#include "detforge/train/loop.h"

namespace detforge {

/// What a checkpoint says about the run that made it, so that it can be used without the run.
struct CheckpointContext {
  std::vector<std::string> class_names;    ///< by class 0..K-1
  std::vector<std::int64_t> category_ids;  ///< COCO's, by class
  std::vector<double> pixel_mean, pixel_std;
  std::string pixel_format = "BGR";  ///< channel order of the two above and of the network's input
  std::string config_yaml;           ///< effective config
  std::string version;               ///< of the program
  std::int64_t world_size = 1;       ///< ranks of this run
};

struct CheckpointerOptions {
  std::filesystem::path folder;  ///< RUN/checkpoints
  std::int64_t keep_periodic =
      2;  ///< newest iter_N.pth files that stay; 0: only last.pth and best.pth
};

/// Saves and restores a run: last.pth, iter_N.pth (N = steps done) and best.pth. A file holds
///   {model, optimizer: {momentum}, scaler: {loss_scale, unskipped}, iteration, images_seen,
///   sampler, scheduler: {last_epoch},
///    class_names, category_ids, pixel_mean, pixel_std, pixel_format, config, version, threads,
///    world_size}
/// (`model` in f32: masters where there are; `scaler` only with mixed precision, names as Apex has
/// them), with {ema, ema_updates} if the weights are averaged (`model` is what trains on, `ema`
/// what was evaluated), and is readable by Python's torch.load. A kill at any moment leaves the old
/// or the new file, never a part. Borrows its parts. Not thread-safe. After an exception the files
/// are as before.
class Checkpointer {
 public:
  /// Removes what a killed process left half-written. Warns if the disk has too little room.
  Checkpointer(CheckpointerOptions options,
               CheckpointContext context,
               Detector& detector,
               Sgd& optimizer,
               BatchSource& source,
               Ema* ema = nullptr,
               Precision* precision = nullptr);

  /// Writes last.pth, then iter_N.pth. `place` of the source, if not the one that it is at. Throws
  /// Error if the disk is full, if a weight, buffer or momentum is not finite (a checkpoint of such
  /// a model is worth nothing), or if a checkpoint of a later step is there.
  void save(const TrainProgress& progress, const std::optional<std::string>& place = {});

  /// Writes best.pth if `metric` is above that of every one before, also in former processes; says
  /// whether.
  bool save_best(const TrainProgress& progress, double metric);

  /// Restores detector, optimizer, average, loss scale and source from the newest file that is
  /// whole; damaged ones are skipped with a warning and renamed to *.damaged. Nothing if the folder
  /// has no checkpoint. Throws Error if all are damaged, or if the newest whole one does not fit
  /// this model.
  std::optional<TrainProgress> resume();

  /// True if the folder has any checkpoint: a new run must not start there.
  bool has_checkpoints() const { return !list().empty(); }

 private:
  struct Found {
    std::filesystem::path path;
    std::optional<std::int64_t> iteration;  ///< nothing: the file has no seal, so it is damaged
  };
  std::vector<Found> list() const;
  Value content(const TrainProgress& progress, const std::string& place) const;
  void check_savable(const TrainProgress& progress) const;
  std::vector<NamedTensors> saved_tensors() const;
  TrainProgress restore(const Item& checkpoint);
  NamedTensors trained_tensors() const;
  NamedTensors weights() const;  ///< the same in f32
  void restore_average(const Item& checkpoint);
  void restore_scaler(const Item& checkpoint);
  void compare_ranks(const Item& checkpoint) const;
  void remove_old_periodic() const;
  void warn_if_disk_is_small() const;

  CheckpointerOptions options_;
  CheckpointContext context_;
  Detector& detector_;
  Sgd& optimizer_;
  BatchSource& source_;
  Ema* ema_;
  Precision* precision_;
  std::int64_t newest_iteration_ = -1;
  std::optional<double> best_metric_;
};

/// Saves every `period` steps and at the end. While the run goes on, a failed save is a warning and
/// the next period tries again; at the end it is an Error.
class CheckpointHook : public Hook {
 public:
  CheckpointHook(Checkpointer& checkpointer, std::int64_t period, Communicator& communicator)
      : checkpointer_(checkpointer), period_(period), communicator_(communicator) {}
  void after_step(const StepReport& report) override;

 private:
  Checkpointer& checkpointer_;
  std::int64_t period_;
  Communicator& communicator_;  ///< hears what keeps this rank
};

}  // namespace detforge
