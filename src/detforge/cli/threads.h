#pragma once

namespace detforge {

/// Cores that this process may use (its affinity mask).
int usable_cores();
/// Cores of the machine.
int all_cores();

/// Sets the compute threads of LibTorch (OpenMP, BLAS) to `requested`, or to usable_cores() if it
/// is 0, and logs the choice. LibTorch's own default is half the cores. Returns the number. Call
/// once, before any tensor.
int configure_threads(int requested);

}  // namespace detforge
