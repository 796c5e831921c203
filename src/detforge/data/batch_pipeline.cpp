#include "detforge/data/batch_pipeline.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "detforge/core/error.h"

namespace detforge {

/// A batch in the making. The draws are handed out under the pipeline's mutex; each sample is then
/// written by one thread only, and the thread that finishes the last one collates.
struct BatchPipeline::Slot {
  Job job;
  std::vector<std::optional<Sample>> samples;
  std::vector<std::exception_ptr> errors;  ///< one per sample, and one for plan and collate
  std::size_t handed_out = 0, finished = 0;
  bool ready = false;
  std::optional<Batch> batch;  ///< empty if all images were left out, or after an error
};

BatchPipeline::BatchPipeline(Stages stages, int threads, int prefetch)
    : stages_(std::move(stages)), prefetch_(static_cast<std::size_t>(prefetch)) {
  DETFORGE_CHECK(threads >= 0 && prefetch >= 1,
                 fmt::format("{} loader threads, {} batches ahead", threads, prefetch),
                 "use 0 or more threads and 1 or more batches");
  for (int i = 0; i < threads; ++i) {
    workers_.emplace_back([this] { work(); });
  }
}

BatchPipeline::~BatchPipeline() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  work_to_do_.notify_all();
  for (std::thread& worker : workers_) {
    worker.join();
  }
}

/// A new slot at the back, or nothing at the end. An error of plan() becomes that slot's, and the
/// end.
std::shared_ptr<BatchPipeline::Slot> BatchPipeline::plan_slot() {
  auto slot = std::make_shared<Slot>();
  try {
    std::optional<Job> job = stages_.plan();
    if (!job) {
      ended_ = true;
      return nullptr;
    }
    slot->job = std::move(*job);
    slot->samples.resize(slot->job.draws.size());
    slot->errors.resize(slot->job.draws.size() + 1);
  } catch (...) {
    ended_ = true;
    slot->errors = {std::current_exception()};
    slot->ready = true;
  }
  slots_.push_back(slot);
  return slot;
}

void BatchPipeline::load_sample(Slot& slot, std::size_t sample) const {
  try {
    slot.samples[sample] = stages_.load(slot.job.draws[sample]);
  } catch (...) {
    slot.errors[sample] = std::current_exception();
  }
}

/// Collates what was loaded.
void BatchPipeline::finish(Slot& slot) const {
  try {
    std::vector<Sample> samples;
    for (std::optional<Sample>& sample : slot.samples) {
      if (sample) {
        samples.push_back(std::move(*sample));
      }
    }
    slot.samples.clear();
    const bool failed = std::any_of(slot.errors.begin(), slot.errors.end(),
                                    [](const auto& e) { return e != nullptr; });
    if (!failed && !samples.empty()) {
      slot.batch = stages_.collate(samples);
    }
  } catch (...) {
    slot.errors.back() = std::current_exception();
  }
}

void BatchPipeline::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    const auto open = [this] {
      return !slots_.empty() && slots_.back()->handed_out < slots_.back()->job.draws.size();
    };
    const auto may_plan = [this] { return !ended_ && slots_.size() < prefetch_; };
    work_to_do_.wait(lock, [&] { return stop_ || open() || may_plan(); });
    if (stop_) {
      return;
    }
    const std::shared_ptr<Slot> slot = open() ? slots_.back() : plan_slot();
    if (slot == nullptr || slot->ready) {  // the end, or a plan that failed
      batch_ready_.notify_all();
      continue;
    }
    const std::size_t sample = slot->handed_out++;
    lock.unlock();
    work_to_do_.notify_one();  // there may be more for another thread
    load_sample(*slot, sample);
    lock.lock();
    if (++slot->finished == slot->job.draws.size()) {
      lock.unlock();
      finish(*slot);
      lock.lock();
      slot->ready = true;
      batch_ready_.notify_all();
    }
  }
}

/// Waits for the next slot and removes it; nothing at the end.
std::shared_ptr<BatchPipeline::Slot> BatchPipeline::take_front() {
  if (workers_.empty()) {
    const std::shared_ptr<Slot> slot = ended_ ? nullptr : plan_slot();
    slots_.clear();
    if (slot != nullptr && !slot->ready) {
      for (std::size_t sample = 0; sample < slot->job.draws.size(); ++sample) {
        load_sample(*slot, sample);
      }
      finish(*slot);
    }
    return slot;
  }
  std::unique_lock lock(mutex_);
  batch_ready_.wait(lock, [this] { return slots_.empty() ? ended_ : slots_.front()->ready; });
  if (slots_.empty()) {
    return nullptr;
  }
  std::shared_ptr<Slot> slot = std::move(slots_.front());
  slots_.pop_front();
  lock.unlock();
  work_to_do_.notify_all();
  return slot;
}

std::optional<BatchPipeline::Result> BatchPipeline::next() {
  while (const std::shared_ptr<Slot> slot = take_front()) {
    for (const std::exception_ptr& error : slot->errors) {
      if (error) {
        std::rethrow_exception(error);
      }
    }
    if (slot->batch) {
      return Result{std::move(*slot->batch), std::move(slot->job.state_after)};
    }
  }
  return std::nullopt;
}

}  // namespace detforge
