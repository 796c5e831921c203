#pragma once

#include "detforge/cli/arguments.h"

namespace detforge {

/// `detforge bench ops`: every convolution and linear layer of the recipes, each shape once, in its
/// three passes: seconds, GFLOP/s, percent of the measured FMA peak and the error against float64,
/// of DetForge's kernels and of LibTorch's; per recipe their sum over a training step. With
/// --explain: which algorithm each pass uses and why. Returns the exit status. Throws Error (usage)
/// if there is no recipe.
int bench_ops(const BenchArguments& arguments, int threads);

}  // namespace detforge
