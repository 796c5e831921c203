#pragma once

#include <chrono>

namespace detforge {

/// Seconds on the monotonic clock; the only clock that DetForge measures with.
inline double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Seconds since 1970: only to date what others read, such as TensorBoard events.
inline double wall_clock_s() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// Seconds since it was made or restarted.
class Timer {
 public:
  double elapsed_s() const { return now_s() - start_s_; }
  /// Returns the elapsed seconds and starts again.
  double restart() {
    const double elapsed = elapsed_s();
    start_s_ = now_s();
    return elapsed;
  }

 private:
  double start_s_ = now_s();
};

}  // namespace detforge
