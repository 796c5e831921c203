#include "detforge/cli/threads.h"

#include <sched.h>
#include <thread>

#include <ATen/Parallel.h>

#include "detforge/core/log.h"

namespace detforge {

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return ::sched_getaffinity(0, sizeof(set), &set) == 0
             ? CPU_COUNT(&set)
             : static_cast<int>(std::thread::hardware_concurrency());
}

int all_cores() {
  return static_cast<int>(std::thread::hardware_concurrency());
}

int configure_threads(int requested) {
  const int threads = requested > 0 ? requested : usable_cores();
  at::set_num_threads(threads);  // OpenMP's and the BLAS's pool too
  log::info("{} compute threads on {} usable cores", threads, usable_cores());
  return threads;
}

}  // namespace detforge
