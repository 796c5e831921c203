#include "detforge/train/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <tuple>
#include <utility>

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include "detforge/core/error.h"
#include "detforge/core/files.h"
#include "detforge/core/log.h"
#include "detforge/ops/map_type.h"
#include "detforge/train/model_state.h"

namespace detforge {
namespace {

namespace fs = std::filesystem;

template <typename T>
Value list_of(const std::vector<T>& items) {
  Value list = Value::list();
  for (const T& item : items) {
    list.append(Value(item));
  }
  return list;
}

/// N of iter_N.pth.
std::optional<std::int64_t> periodic_iteration(const fs::path& path) {
  const std::string name = path.filename().string();
  if (!name.starts_with("iter_") || !name.ends_with(".pth")) {
    return std::nullopt;
  }
  std::int64_t iteration = 0;
  const char* end = name.data() + name.size() - 4;
  const auto parsed = std::from_chars(name.data() + 5, end, iteration);
  return parsed.ec == std::errc() && parsed.ptr == end ? std::optional(iteration) : std::nullopt;
}

/// Damaged files keep their content under another name, so that they neither count as newest nor
/// are lost.
void set_aside(const std::vector<fs::path>& damaged) {
  for (const fs::path& path : damaged) {
    std::error_code ignored;
    fs::rename(path, path.string() + ".damaged", ignored);
  }
}

}  // namespace

Checkpointer::Checkpointer(CheckpointerOptions options,
                           CheckpointContext context,
                           Detector& detector,
                           Sgd& optimizer,
                           BatchSource& source,
                           Ema* ema,
                           Precision* precision)
    : options_(std::move(options)),
      context_(std::move(context)),
      detector_(detector),
      optimizer_(optimizer),
      source_(source),
      ema_(ema),
      precision_(precision) {
  files::remove_stale_temporaries(options_.folder);
  for (const Found& found : list()) {
    newest_iteration_ = std::max(newest_iteration_, found.iteration.value_or(-1));
  }
  if (const auto best = peek_checkpoint(options_.folder / "best.pth")) {
    best_metric_ = best->metric;
  }
  warn_if_disk_is_small();
}

/// The model's own tensors, but for weights that have a master: the master.
NamedTensors Checkpointer::trained_tensors() const {
  const NamedTensors masters = optimizer_.masters();
  const std::map<std::string, Tensor> by_name(masters.begin(), masters.end());
  NamedTensors state = model_state(detector_);
  for (auto& [name, tensor] : state) {
    const auto master = by_name.find(name);
    tensor = master != by_name.end() ? master->second : tensor;
  }
  return state;
}

NamedTensors Checkpointer::weights() const {
  NamedTensors state = trained_tensors();
  for (auto& [name, tensor] : state) {
    tensor = widen(tensor);
  }
  return state;
}

std::vector<NamedTensors> Checkpointer::saved_tensors() const {
  std::vector<NamedTensors> all{weights(), optimizer_.state()};
  if (ema_ != nullptr) {
    all.push_back(ema_->state());
  }
  return all;
}

void Checkpointer::warn_if_disk_is_small() const {
  // last, best, the periodic ones, and a temporary; those that exist already are not subtracted.
  std::int64_t one = 0;
  for (const NamedTensors& tensors : saved_tensors()) {
    one += total_bytes(tensors);
  }
  const std::int64_t wanted = one * (3 + options_.keep_periodic);
  fs::path folder = options_.folder;
  while (!fs::exists(folder) && folder.has_relative_path()) {
    folder = folder.parent_path();
  }
  std::error_code error;
  const fs::space_info space = fs::space(folder.empty() ? fs::path(".") : folder, error);
  if (!error && space.available < static_cast<std::uintmax_t>(wanted)) {
    log::warn("{}: {} MiB free, the checkpoints may need {} MiB", options_.folder.string(),
              space.available >> 20, wanted >> 20);
  }
}

/// All checkpoints, newest first; last.pth before others of its step. Those without seal come
/// first, so that resume() reports them.
std::vector<Checkpointer::Found> Checkpointer::list() const {
  std::vector<Found> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(options_.folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name == "last.pth" || name == "best.pth" || periodic_iteration(entry.path())) {
      const auto seal = peek_checkpoint(entry.path());
      found.push_back({entry.path(), seal ? std::optional(seal->iteration) : std::nullopt});
    }
  }
  std::sort(found.begin(), found.end(), [](const Found& a, const Found& b) {
    // "last" > "iter" > "best" by name.
    return std::tuple(!a.iteration, a.iteration, a.path.filename()) >
           std::tuple(!b.iteration, b.iteration, b.path.filename());
  });
  return found;
}

Value Checkpointer::content(const TrainProgress& progress, const std::string& place) const {
  Value content = Value::dict().set("model", to_value(weights()));
  if (precision_ != nullptr && precision_->is_mixed()) {
    const LossScaler& scaler = precision_->scaler();
    content.set(
        "scaler",
        Value::dict().set("loss_scale", scaler.scale()).set("unskipped", scaler.good_steps()));
  }
  if (ema_ != nullptr) {
    content.set("ema", to_value(ema_->state())).set("ema_updates", ema_->updates());
  }
  return content.set("optimizer", Value::dict().set("momentum", to_value(optimizer_.state())))
      .set("iteration", progress.iteration)
      .set("images_seen", progress.images_seen)
      .set("sampler", place)
      .set("scheduler", Value::dict().set("last_epoch", progress.iteration))
      .set("class_names", list_of(context_.class_names))
      .set("category_ids", list_of(context_.category_ids))
      .set("pixel_mean", list_of(context_.pixel_mean))
      .set("pixel_std", list_of(context_.pixel_std))
      .set("pixel_format", context_.pixel_format)
      .set("config", context_.config_yaml)
      .set("version", context_.version)
      .set("threads", std::int64_t{at::get_num_threads()})
      .set("world_size", context_.world_size);
}

void Checkpointer::check_savable(const TrainProgress& progress) const {
  DETFORGE_CHECK(newest_iteration_ <= progress.iteration,
                 fmt::format("a checkpoint of a later step is there ({} of {} steps)",
                             newest_iteration_, progress.iteration),
                 "continue that run with --resume, or choose another output folder");
  for (const NamedTensors& tensors : saved_tensors()) {
    const std::string name = first_nonfinite(tensors);
    DETFORGE_CHECK(name.empty(), "not saved: " + name + " is not finite",
                   "the last checkpoint is finite: resume from it with a lower SOLVER.BASE_LR");
  }
}

void Checkpointer::save(const TrainProgress& progress, const std::optional<std::string>& place) {
  try {
    check_savable(progress);
    const Value value = content(progress, place ? *place : source_.state());
    const CheckpointSeal seal{.iteration = progress.iteration, .metric = std::nullopt};
    write_checkpoint(options_.folder / "last.pth", value, seal);
    newest_iteration_ = progress.iteration;
    if (options_.keep_periodic > 0) {
      write_checkpoint(options_.folder / fmt::format("iter_{}.pth", progress.iteration), value,
                       seal);
      remove_old_periodic();
    }
  } catch (Error& error) {
    error.add_where(options_.folder.string());
    throw;
  }
}

bool Checkpointer::save_best(const TrainProgress& progress, double metric) {
  if (best_metric_ && !(metric > *best_metric_)) {
    return false;
  }
  check_savable(progress);
  write_checkpoint(options_.folder / "best.pth", content(progress, source_.state()),
                   {.iteration = progress.iteration, .metric = metric});
  best_metric_ = metric;
  return true;
}

void Checkpointer::remove_old_periodic() const {
  std::vector<std::pair<std::int64_t, fs::path>> periodic;
  for (const Found& found : list()) {
    if (const auto iteration = periodic_iteration(found.path)) {
      periodic.emplace_back(*iteration, found.path);
    }
  }
  std::sort(periodic.rbegin(), periodic.rend());
  for (std::size_t i = static_cast<std::size_t>(options_.keep_periodic); i < periodic.size(); ++i) {
    std::error_code ignored;  // an old file that stays does no harm
    fs::remove(periodic[i].second, ignored);
  }
}

std::optional<TrainProgress> Checkpointer::resume() {
  const std::vector<Found> found = list();
  if (found.empty()) {
    return std::nullopt;
  }
  std::vector<fs::path> damaged;
  for (const Found& candidate : found) {
    Value value;
    try {
      value = read_checkpoint(candidate.path);
    } catch (const Error& error) {
      log::warn("skipping a checkpoint: {}", error.what());
      damaged.push_back(candidate.path);
      continue;
    }
    const TrainProgress progress = restore(value.item(candidate.path.string()));
    newest_iteration_ = progress.iteration;
    set_aside(damaged);
    const auto best = peek_checkpoint(options_.folder / "best.pth");
    best_metric_ = best ? best->metric : std::nullopt;  // a damaged best no longer rules
    log::info(
        "resumed from {}: {} steps, {} images; weights, momentum and place in the data restored",
        candidate.path.string(), progress.iteration, progress.images_seen);
    return progress;
  }
  throw Error(fmt::format("all {} checkpoints are damaged", found.size()),
              "start anew in another output folder")
      .add_where(options_.folder.string());
}

TrainProgress Checkpointer::restore(const Item& checkpoint) {
  try {
    copy_by_name(to_named_tensors(checkpoint["model"]), trained_tensors());
    optimizer_.publish_masters();
    restore_scaler(checkpoint);
    optimizer_.load_state(to_named_tensors(checkpoint["optimizer"]["momentum"]));
    restore_average(checkpoint);
    source_.restore(checkpoint["sampler"].string());
    compare_ranks(checkpoint);
    const std::int64_t threads = checkpoint["threads"].integer();
    if (threads != at::get_num_threads()) {
      log::warn(
          "the saved run computed with {} threads, this one has {}: sums may differ in the last "
          "bit",
          threads, at::get_num_threads());
    }
    return {.iteration = checkpoint["iteration"].integer(),
            .images_seen = checkpoint["images_seen"].integer()};
  } catch (Error& error) {
    error.add_where(checkpoint.path());
    throw;
  }
}

void Checkpointer::compare_ranks(const Item& checkpoint) const {
  const auto saved = checkpoint.find("world_size");
  const std::int64_t before = saved ? saved->integer() : 1;
  if (before != context_.world_size) {
    log::warn(
        "the run had {} ranks, this one has {}: each step sees the images that it would have seen, "
        "and each rank computes another part of them; sums may differ in the last bits",
        before, context_.world_size);
  }
}

void Checkpointer::restore_scaler(const Item& checkpoint) {
  if (precision_ == nullptr || !precision_->is_mixed()) {
    return;
  }
  const auto saved = checkpoint.find("scaler");
  if (saved) {
    precision_->scaler().restore((*saved)["loss_scale"].number(), (*saved)["unskipped"].integer());
  } else {
    log::warn("{}: the saved run had no loss scale: this one starts at {}", checkpoint.path(),
              precision_->scaler().scale());
  }
}

void Checkpointer::restore_average(const Item& checkpoint) {
  if (ema_ == nullptr) {
    return;
  }
  const auto saved = checkpoint.find("ema");
  if (saved) {
    ema_->load_state(to_named_tensors(*saved), checkpoint["ema_updates"].integer());
  } else {
    log::warn("{}: the saved run did not average its weights: the average begins now",
              checkpoint.path());
    ema_->restart();
  }
}

void CheckpointHook::after_step(const StepReport& report) {
  const bool due = period_ > 0 && report.progress.iteration % period_ == 0;
  if (!due && !report.last) {
    return;
  }
  communicator_.enter("checkpoint", report.iteration);
  try {
    checkpointer_.save(report.progress);
  } catch (const Error& error) {
    if (report.last) {
      throw;
    }
    log::error(
        "CHECKPOINT NOT SAVED at iteration {}; training goes on and tries again in {} iterations: "
        "{}",
        report.iteration, period_, error.what());
  }
}

}  // namespace detforge
