#include "detforge/eval/work_queue.h"

#include <algorithm>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace detforge {

void run_in_threads(int threads, std::size_t items, const std::function<void(WorkQueue&)>& work) {
  WorkQueue queue(items);
  std::mutex mutex;
  std::exception_ptr failure;
  const auto guarded = [&] {
    try {
      work(queue);
    } catch (...) {
      queue.stop();
      const std::lock_guard lock(mutex);
      failure = std::current_exception();
    }
  };
  const std::size_t wanted = threads > 0 ? static_cast<std::size_t>(threads)
                                         : std::max(1U, std::thread::hardware_concurrency());
  const std::size_t count = std::min(wanted, std::max<std::size_t>(items, 1));
  std::vector<std::jthread> others;
  for (std::size_t i = 1; i < count; ++i) {
    others.emplace_back(guarded);
  }
  guarded();
  others.clear();  // joins
  if (failure) {
    std::rethrow_exception(failure);
  }
}

}  // namespace detforge
