#pragma once

namespace detforge {

/// While it lives, SIGTERM and SIGINT ask for a clean stop instead of ending the process; a second
/// one of the same kind ends it at once, as usual, unless `second_kills` is false (a process whose
/// parent passes signals on may get them twice). At most one may live at a time. Restores the
/// former handlers.
class StopSignals {
 public:
  explicit StopSignals(bool second_kills = true);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// The signal that arrived while one lives ("SIGTERM" or "SIGINT"), or null. Long work between
  /// two steps (an evaluation) asks this to give up early.
  static const char* received();
};

}  // namespace detforge
