#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "detforge/data/sampler.h"
#include "detforge/structures/batch.h"
#include "detforge/structures/sample.h"

namespace detforge {

/// Makes batches ahead of their use: jobs are planned one after the other, their samples are loaded
/// by any thread, and the batches come out in the order of the plan, the same for any number of
/// threads. Never more than `prefetch` batches exist or are in the making. With 0 threads
/// everything happens inside next(). One consumer. Destruction stops at once: samples being loaded
/// are finished and thrown away.
class BatchPipeline {
 public:
  struct Job {
    std::vector<Draw> draws;               ///< at least one
    BatchSampler::State state_after = {};  ///< handed back with the batch
  };
  struct Stages {
    std::function<std::optional<Job>()> plan;  ///< one call at a time; none = the end
    std::function<std::optional<Sample>(const Draw&)>
        load;  ///< from any thread; none = leave this image out
    std::function<Batch(const std::vector<Sample>&)> collate;  ///< from any thread
  };
  struct Result {
    Batch batch;
    BatchSampler::State state_after;
  };

  BatchPipeline(Stages stages, int threads, int prefetch);
  ~BatchPipeline();
  BatchPipeline(const BatchPipeline&) = delete;
  BatchPipeline& operator=(const BatchPipeline&) = delete;

  /// The next batch; waits for it. Nothing at the end. Rethrows what a stage threw for this batch
  /// (of several samples that failed, the first in order); the call after that goes on with the
  /// following batch.
  std::optional<Result> next();

 private:
  struct Slot;
  void work();
  std::shared_ptr<Slot> plan_slot();
  void load_sample(Slot& slot, std::size_t sample) const;
  void finish(Slot& slot) const;
  std::shared_ptr<Slot> take_front();

  Stages stages_;
  std::size_t prefetch_;
  std::mutex mutex_;
  std::condition_variable work_to_do_, batch_ready_;
  std::deque<std::shared_ptr<Slot>> slots_;  ///< in order; the front is the next to hand out
  bool ended_ = false, stop_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace detforge
