#pragma once

#include <filesystem>

#include "detforge/core/files.h"

namespace detforge {

/// Holds a run folder while a process trains in it. RUN/lock keeps others out; RUN/running is there
/// as long as the process lives, so that one left behind tells the next start that the last one was
/// killed.
class RunLock {
 public:
  /// Throws Error naming the process that holds the folder. Warns if the previous run was killed.
  explicit RunLock(const std::filesystem::path& run_folder);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

  /// True if the process that trained here before this one neither ended nor reported an error.
  bool previous_was_killed() const { return previous_was_killed_; }

 private:
  files::Lock lock_;
  std::filesystem::path marker_;
  bool previous_was_killed_;
};

}  // namespace detforge
