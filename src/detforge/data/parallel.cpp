#include "detforge/data/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace detforge {
namespace {

constexpr std::size_t kChunk = 16;  // indices that a thread takes at a time
constexpr std::size_t kMostThreads = 8;

/// The work, and what went wrong in it, shared by the threads.
struct Shared {
  const std::size_t count;
  const std::function<void(std::size_t)>& work;
  std::atomic<std::size_t> next = 0;
  std::mutex mutex = {};
  std::size_t failed_at = 0;
  std::exception_ptr failure = nullptr;

  void fail(std::size_t i) {
    const std::lock_guard lock(mutex);
    if (failure == nullptr || i < failed_at) {
      failed_at = i;
      failure = std::current_exception();
    }
    next = count;
  }

  void run() {
    for (std::size_t begin = next.fetch_add(kChunk); begin < count;
         begin = next.fetch_add(kChunk)) {
      for (std::size_t i = begin; i < std::min(count, begin + kChunk); ++i) {
        try {
          work(i);
        } catch (...) {
          return fail(i);
        }
      }
    }
  }
};

}  // namespace

void for_each_parallel(std::size_t count, const std::function<void(std::size_t)>& work) {
  Shared shared{.count = count, .work = work};
  const std::size_t useful = (count + kChunk - 1) / kChunk;
  const std::size_t cores = std::max(1U, std::thread::hardware_concurrency());
  std::vector<std::thread> threads;
  for (std::size_t i = 1; i < std::min({useful, cores, kMostThreads}); ++i) {
    threads.emplace_back([&shared] { shared.run(); });
  }
  shared.run();
  for (std::thread& thread : threads) {
    thread.join();
  }
  if (shared.failure != nullptr) {
    std::rethrow_exception(shared.failure);
  }
}

}  // namespace detforge
