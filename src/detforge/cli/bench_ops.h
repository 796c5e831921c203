#pragma once

namespace detforge {

/// `detforge bench ops`: times the building blocks of a Faster R-CNN R50-FPN step on an 800x1344
/// image, forward and backward, and prints GFLOP/s and percent of the measured FMA peak. Returns
/// the exit status.
int bench_ops(int threads);

}  // namespace detforge
