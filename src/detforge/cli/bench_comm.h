#pragma once

#include "detforge/cli/arguments.h"

namespace detforge {

/// `detforge bench comm`: sums over ranks by size (seconds, GB/s) and, with a recipe, training
/// steps on made-up images: each rank's seconds in forward, backward and communication, how much of
/// the communication the backward pass hides, and ranks that are slower than the others. Returns
/// the exit status.
int bench_comm(const BenchArguments& arguments);

}  // namespace detforge
