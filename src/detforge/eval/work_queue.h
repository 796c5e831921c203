#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <optional>

namespace detforge {

/// Hands out 0, 1, ..., count - 1, each once, to the threads that ask.
class WorkQueue {
 public:
  explicit WorkQueue(std::size_t count) : count_(count) {}

  std::optional<std::size_t> next() {
    const std::size_t item = next_++;
    return item < count_ ? std::optional(item) : std::nullopt;
  }

  /// Nothing more is handed out.
  void stop() { next_ = count_; }

 private:
  const std::size_t count_;
  std::atomic<std::size_t> next_{0};
};

/// Runs `work` in several threads at once, which share a queue of `items`, and waits for all. The
/// caller's thread is one of them. After an exception no more items are handed out, and it (one of
/// them, if there are several) is thrown here.
///   threads  0 = one per processor; never more than there are items
void run_in_threads(int threads, std::size_t items, const std::function<void(WorkQueue&)>& work);

}  // namespace detforge
