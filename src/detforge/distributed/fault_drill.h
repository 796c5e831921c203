#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace detforge {

/// A fault on order, to rehearse what a run does when a rank is lost. In the environment:
///   DETFORGE_FAULT=rank=1,phase=backward,iteration=3,do=kill
/// Without `iteration`: the first time that the rank enters the phase. What is done: kill
/// (SIGKILL), stop (SIGSTOP), fail (an Error), slow:SECONDS (sleeps), full-disk (from here on the
/// process can write no file).
struct FaultDrill {
  std::int64_t rank = 0;
  std::string phase;
  std::optional<std::int64_t> iteration;
  std::string action;

  /// Of the environment; nothing if the variable is not set. Throws Error (kUsage) for one that
  /// makes no sense.
  static std::optional<FaultDrill> from_environment();
  static FaultDrill parse(const std::string& text);
  /// Does it, if this is the rank and the moment, with a warning in the log.
  void at(std::int64_t own_rank, const char* own_phase, std::int64_t own_iteration);

 private:
  bool is_done_ = false;
};

}  // namespace detforge
