#include "detforge/train/run_lock.h"

#include <string>
#include <unistd.h>

#include "detforge/core/log.h"

namespace detforge {

RunLock::RunLock(const std::filesystem::path& run_folder)
    : lock_(run_folder / "lock"),
      marker_(run_folder / "running"),
      previous_was_killed_(std::filesystem::exists(marker_)) {
  if (previous_was_killed_) {
    log::warn(
        "{}: the previous run (process {}) ended without a clean stop: it was killed, the machine "
        "went down, "
        "or memory ran out (then `dmesg` names it; lower SOLVER.IMS_PER_BATCH or "
        "INPUT.MIN_SIZE_TRAIN)",
        run_folder.string(), files::read(marker_));
  }
  files::write_atomic(marker_, std::to_string(::getpid()));
}

RunLock::~RunLock() {
  std::error_code ignored;
  std::filesystem::remove(marker_, ignored);
}

}  // namespace detforge
